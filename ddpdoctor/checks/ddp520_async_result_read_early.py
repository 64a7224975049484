"""An asynchronous collective that nobody waits for, or too late: what is read from its tensor may be from before it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import ReadEarly
from ddpdoctor.messages.divergence import finding
from ddpdoctor.model import Finding, Rule, Severity, group_ranks, verb

RULE = Rule(
    code="DDP520",
    name="async-result-read-early",
    summary="the result of an asynchronous collective is used without waiting for it",
    severity=Severity.FAIL,
    shown_by="a value is read before wait(): `ddpdoctor verify-sync`",
    remedy="keep the handle and call its wait() before the tensor is read or written, or leave async_op out",
    explains=("DDP503", "DDP505", "DDP506", "DDP509"),
    about_step=True,
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """One finding per kind of collective whose handle is thrown away, or whose result is used before it is there."""
    for found in divergences.of(ReadEarly):
        since = f"from step {found.step} of {divergences.steps} on, {group_ranks(found.ranks)}"
        call = f"{found.op}(async_op=True)"
        if found.used_by:
            message = (
                f"{since} {verb(found.ranks, 'uses', 'use')} the result of {call} in a {found.used_by} before "
                "calling wait()"
            )
            yield finding(
                RULE,
                found,
                message,
                tensors=[found.op],
                cause=found.used_by,
                note=f"no wait() before the {found.used_by}",
            )
        else:
            message = (
                f"{since} {verb(found.ranks, 'discards', 'discard')} the handle of {call} without calling wait(): its "
                "tensor may be read before the collective completes"
            )
            yield finding(RULE, found, message, tensors=[found.op], note="no wait() for this handle")
