"""Agents of one job wait each in a rendezvous of its own, since each has another id."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

TIMED_OUT = "RendezvousTimeoutError"
RANDOM = "generated a random run_id"
STATIC = "master_addr is only used for static rdzv_backend"
RULE = Rule(
    code="DDP227",
    name="rendezvous-ids-differ",
    summary="the agents of one job wait in different rendezvous",
    severity=Severity.FAIL,
    shown_by="the agents' first lines show different or random `rdzv_id` values, or different endpoints",
    remedy="start torchrun on every node with the same --rdzv-id, --rdzv-backend=c10d and --rdzv-endpoint=HOST:PORT; "
    "--master-addr and --node-rank belong to the static rendezvous and do not replace them",
    explains=("DDP203", "DDP204", "DDP205", "DDP401"),
    errors=(
        ErrorPattern(
            regex=RANDOM,
            note="torchrun has no --rdzv-id: agents on other nodes get another id, and do not meet this one",
            applies=lambda _: False,
        ),
    ),
)


def check(failures: Failures) -> Iterator[Finding]:
    """One finding where a rendezvous timed out, and the launcher's own lines show that its agents could not meet."""
    if failures.log is None:
        raise SkipCheck("there is no log")
    waited = [failure for failure in failures.of("DDP205") if TIMED_OUT in failure.text]
    remarks = "\n".join(failures.log.remarks)
    reasons = [
        *(["it has no --rdzv-id, and made up one of its own"] if RANDOM in remarks else []),
        *(["--master-addr has no effect beside the backend that it uses"] if STATIC in remarks else []),
    ]
    if waited and reasons:
        yield RULE.finding(
            f"torchrun waited in a rendezvous of its own ({TIMED_OUT}): {' and '.join(reasons)}",
            details=[line for line in failures.log.remarks if RANDOM in line or STATIC in line][:2],
            shown_by_job=True,
        )
