"""An asynchronous collective whose handle nobody waits for: what is read from its tensor may be from before it."""

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
    """One finding a kind of collective whose handle is thrown away."""
    for found in of_phase(divergences, "read early"):
        message = (
            f"from step {found.step} of {divergences.steps} on, {group_ranks(found.ranks)} throw the handle of "
            f"{found.tensors[0]}(async_op=True) away without waiting: its tensor may be read before it is reduced"
        )
        yield finding(RULE, found, message, note="nobody waits for it")
