"""A rank waits in a debugger or an input() for somebody at the keyboard, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP309",
    name="rank-waits-for-a-human",
    summary="a rank waits in a debugger or for input while its peers wait for it in a collective",
    severity=Severity.FAIL,
    shown_by="one rank prints `(Pdb)` or waits in input(): `ddpdoctor hang`",
    remedy="take the breakpoint() or input() out; to debug one rank, `torch.distributed.breakpoint(rank)` holds the others too",
    explains=("DDP314", "DDP401", "DDP408"),
)


def check(hang: Hang | None, exits: PerRank[RankExit] | None) -> Iterator[Finding]:
    """The ranks that wait for a person, and those whose debugger found no terminal and gave up."""
    if hang is None and exits is None:
        raise SkipCheck("no process state and no exit status of any rank")
    culprits = hang.culprits(Activity.HUMAN) if hang is not None else ()
    if hang is not None and culprits:
        yield RULE.finding(
            f"{hang.said_of(culprits)}; {hang.wait_for(culprits)}",
            ranks=[activity.rank for activity in culprits],
            where=hang.where(culprits),
            seconds=hang.seconds,
        )
    quit_ = {entry.rank: entry.value.error for entry in exits or () if entry.value.error is not None}
    quit_ = {rank: error for rank, error in quit_.items() if error.type.rpartition(".")[2] == "BdbQuit"}
    if quit_:
        yield RULE.finding(
            f"{group_ranks([*quit_])} came to a breakpoint, and there was nobody at a keyboard: the debugger ended it (BdbQuit)",
            ranks=[*quit_],
            where=[where for rank, error in quit_.items() if (where := _where(rank, error)) is not None],
        )


def _where(rank: int, error: RankError) -> Where | None:
    place = users_frame(error.stack)
    if place is None:
        return None
    return Where.at(place, rank=rank, note="the breakpoint")
