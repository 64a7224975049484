"""A rank had no file descriptor left: files, sockets, and the tensors that DataLoader workers share."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.limits import Limits
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

RULE = Rule(
    code="DDP410",
    name="too-many-open-files",
    summary="a rank had no file descriptor left",
    severity=Severity.FAIL,
    shown_by="`ulimit -n` is low, or `ls /proc/PID/fd | wc -l` is close to it",
    remedy="raise the limit (`ulimit -n 65536` before the launcher; LimitNOFILE for services), close files, or let workers share "
    "tensors by name: torch.multiprocessing.set_sharing_strategy('file_system')",
    explains=("DDP306", "DDP307", "DDP308", "DDP314", "DDP318", "DDP401", "DDP408", "DDP418"),
    errors=(
        ErrorPattern(
            regex=r"[Tt]oo many open files|received 0 items of ancdata",
        ),
    ),
)


def check(failures: Failures, limits: PerRank[Limits] | None) -> Iterator[Finding]:
    """The ranks that ran out of descriptors, and their limit where it is known."""
    found = failures.of("DDP410")
    if not found:
        return
    ranks = unique_ranks(found)
    held = {entry.rank: entry.value.open_files for entry in limits or ()}
    limit = next((held[rank] for rank in ranks if held.get(rank) is not None), None)
    limit_text = f"; its limit is {limit}" if limit is not None else ""
    yield RULE.finding(
        f"{who(found)} had too many open files{limit_text}",
        ranks=ranks,
        where=[where for failure in found for where in failure.where()],
        limit=limit,
    )
