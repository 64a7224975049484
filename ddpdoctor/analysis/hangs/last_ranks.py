"""The ranks that still run although all their peers have ended, and make no progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.crashes.own_ends import ended_well
from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.model import SkipCheck, group_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRanks(Hang):
    """A hang in which nobody waits any more: the ranks `elsewhere` keep the job from its end."""

    ended: tuple[int, ...]
    """All other ranks of the job, which have ended."""

    def wait_for(self, culprits: Sequence[RankActivity]) -> str:  # noqa: ARG002 - as in every hang
        """`ranks 1-3 have ended`: the end of a sentence about the culprits."""
        return f"{group_ranks(self.ended)} {'has' if len(self.ended) == 1 else 'have'} ended"


def derive(
    activities: Activities,
    exits: PerRank[RankExit] | None,
    size: JobSize | None,
    stall: Stall | None,
) -> LastRanks:
    """The last ranks of the job, where none of them shows progress.

    Raises:
        SkipCheck: no rank has ended, not all others are known, or a rank is still at work.
    """
    living = {activity.rank for activity in activities.each}
    gone = ended_well(exits) - living
    if not gone or not living:
        raise SkipCheck("no rank is known to have ended before the others")
    if size is not None and len(gone | living) < size.ranks:
        raise SkipCheck(f"only {len(gone | living)} of {size.ranks} ranks are known")
    if activities.waiting or any(_at_work(activity) for activity in activities.each):
        raise SkipCheck("a rank is still at work, or waits for its peers")
    seconds = stall.seconds if stall is not None else None
    return LastRanks(waiting=(), elsewhere=activities.each, seconds=seconds, ended=tuple(sorted(gone)))


def _at_work(activity: RankActivity) -> bool:
    return activity.kind is not Activity.GIL and activity.moves is not False
