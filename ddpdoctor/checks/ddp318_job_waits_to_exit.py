"""A rank has reached its end but its process does not go: a thread, a process group or a child keeps it alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ddpdoctor.analysis.hangs.last_ranks import LastRanks
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.analysis.hangs.thread_activity import OWN_END
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

RULE = Rule(
    code="DDP318",
    name="job-waits-to-exit",
    summary="a rank has nothing left to do, or all its peers have ended, but its process does not end",
    severity=Severity.FAIL,
    shown_by="the last line of the program has run, and threads or children still live: `ddpdoctor hang`",
    remedy="end what keeps it alive (`thread.join(timeout)`, `daemon=True`, `executor.shutdown(cancel_futures=True)`); after a "
    "failed collective leave with `os._exit` instead of waiting for the process group",
    explains=("DDP408",),
)


AFTER_THE_OTHERS = (
    "set a deadline for what this rank waits for, or let it do so in a daemon thread: nothing else is left of the job"
)


def check(
    activities: Activities, exits: PerRank[RankExit] | None, stall: Stall | None, last_ranks: LastRanks | None
) -> Iterator[Finding]:
    """The ranks that are leaving, where no rank is still at work; of those that clean up, only the ones that do not get on.

    And ranks that wait for something else after all their peers have ended.
    """
    leaving = activities.of(Activity.EXITING)
    if len(leaving) < len(activities.each):
        yield from _after_the_others(last_ranks)
        return
    leaving = tuple(activity for activity in leaving if activity.process is not None)  # else it ended meanwhile
    kept_alive = tuple(activity for activity in leaving if activity.operation != OWN_END)
    leaving = kept_alive or tuple(activity for activity in leaving if not activity.moves)
    if leaving:
        seconds = stall.seconds if stall is not None else None
        failed = {entry.rank for entry in exits or () if entry.value.error is not None}
        yield RULE.finding(
            f"{_subject(leaving, failed)}{_since(seconds)}: the main thread is in {leaving[0].operation}{_keeper(leaving[0])}",
            ranks=[activity.rank for activity in leaving],
            where=[where for activity in leaving if (where := _where(activity)) is not None],
            seconds=seconds,
            after_an_error=sorted(failed & {activity.rank for activity in leaving}),
        )


def _after_the_others(last_ranks: LastRanks | None) -> Iterator[Finding]:
    if last_ranks is None:
        return
    waiting = tuple(one for one in last_ranks.elsewhere if one.kind not in (Activity.GIL, Activity.EXITING))
    if waiting:
        yield RULE.finding(
            f"{last_ranks.said_of(waiting)}{_since(last_ranks.seconds)}; {last_ranks.wait_for(waiting)}",
            ranks=[activity.rank for activity in waiting],
            where=last_ranks.where(waiting),
            remedy=AFTER_THE_OTHERS,
            seconds=last_ranks.seconds,
        )


def _subject(leaving: tuple[RankActivity, ...], failed: set[int]) -> str:
    ranks = [activity.rank for activity in leaving]
    verb = "do" if len(ranks) > 1 else "does"
    after = " after an error" if failed & {*ranks} else ""
    return f"{group_ranks(ranks)} {verb} not exit{after}"


def _since(seconds: float | None) -> str:
    return f" for {seconds:.1f} s" if seconds is not None else ""


def _keeper(activity: RankActivity) -> str:
    if activity.place is None:
        return ""
    return f", kept alive by {activity.place.function} ({PurePath(activity.place.file).name}:{activity.place.line})"


def _where(activity: RankActivity) -> Where | None:
    if activity.place is None:
        return None
    place = activity.place
    return Where.at(place, rank=activity.rank, note="keeps the process alive")
