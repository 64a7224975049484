"""A rank waits in a debugger or an input() for somebody at the keyboard, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.standstill import Standstill
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP309",
    name="rank-waits-for-a-human",
    summary="a rank waits in a debugger or for input while its peers wait for it in a collective",
    severity=Severity.FAIL,
    remedy="take the breakpoint() or input() out; to debug one rank, `torch.distributed.breakpoint(rank)` holds the others too",
    explains=("DDP314", "DDP408"),
)


def check(standstill: Standstill) -> Iterator[Finding]:
    """The ranks that wait for a person."""
    culprits = standstill.culprits(Activity.HUMAN)
    if culprits:
        yield RULE.finding(
            f"{standstill.said_of(culprits)}; {standstill.wait_for(culprits)}",
            ranks=[doing.rank for doing in culprits],
            where=standstill.where(culprits),
            seconds=standstill.seconds,
        )
