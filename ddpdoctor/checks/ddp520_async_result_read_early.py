"""An asynchronous collective that nobody waits for, or too late: what is read from its tensor may be from before it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP520",
    name="async-result-read-early",
    summary="the result of an asynchronous collective is used without waiting for it",
    severity=Severity.FAIL,
    remedy="keep the handle and call its wait() before the tensor is read or written, or leave async_op out",
    explains=("DDP503", "DDP505", "DDP506", "DDP509"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """One finding a kind of collective whose handle is thrown away, or whose result is used before it is there."""
    for found in of_phase(divergences, "read early"):
        since = f"from step {found.step} of {divergences.steps} on, {group_ranks(found.ranks)}"
        call = f"{found.tensors[0]}(async_op=True)"
        if found.why:
            message = (
                f"{since} begin a {found.why} with the result of {call} before it is there, and have not waited for it"
            )
            yield finding(RULE, found, message, note=f"not waited for before the {found.why}")
        else:
            message = (
                f"{since} throw the handle of {call} away without waiting: its tensor may be read before it is reduced"
            )
            yield finding(RULE, found, message, note="nobody waits for it")
