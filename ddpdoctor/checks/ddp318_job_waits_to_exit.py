"""A rank has come to its end but its process does not go: a thread, a process group or a child keeps it alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ddpdoctor.analysis.hangs.rank_activity import OWN_END, Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

RULE = Rule(
    code="DDP318",
    name="job-waits-to-exit",
    summary="a rank has nothing left to do but its process does not end",
    severity=Severity.FAIL,
    shown_by="the last line of the program has run, and threads or children still live: `ddpdoctor hang`",
    remedy="end what keeps it alive (`thread.join(timeout)`, `daemon=True`, `executor.shutdown(cancel_futures=True)`); after a "
    "failed collective leave with `os._exit` instead of waiting for the process group",
    explains=("DDP408",),
)


def check(activities: Activities, exits: PerRank[RankExit] | None, stall: Stall | None) -> Iterator[Finding]:
    """The ranks that are leaving, where no rank is still at work; of those that clean up, only the ones that do not get on."""
    leaving = activities.of(Activity.EXITING)
    if len(leaving) < len(activities.each):
        return
    kept_alive = tuple(activity for activity in leaving if activity.operation != OWN_END)
    leaving = kept_alive or tuple(activity for activity in leaving if not activity.moves)
    if leaving:
        failed = {entry.rank for entry in exits or () if entry.value.error is not None}
        yield RULE.finding(
            f"{_subject(leaving, failed)}{_since(stall)}: the main thread is in {leaving[0].operation}{_keeper(leaving[0])}",
            ranks=[activity.rank for activity in leaving],
            where=[where for activity in leaving if (where := _where(activity)) is not None],
            seconds=stall.seconds if stall is not None else None,
            after_an_error=sorted(failed & {activity.rank for activity in leaving}),
        )


def _subject(leaving: tuple[RankActivity, ...], failed: set[int]) -> str:
    ranks = [activity.rank for activity in leaving]
    verb = "do" if len(ranks) > 1 else "does"
    after = " after an error" if failed & {*ranks} else ""
    return f"{group_ranks(ranks)} {verb} not exit{after}"


def _since(stall: Stall | None) -> str:
    return f" for {stall.seconds:.1f} s" if stall is not None and stall.seconds is not None else ""


def _keeper(activity: RankActivity) -> str:
    if activity.place is None:
        return ""
    return f", kept alive by {activity.place.function} ({PurePath(activity.place.file).name}:{activity.place.line})"


def _where(activity: RankActivity) -> Where | None:
    if activity.place is None:
        return None
    place = activity.place
    return Where.at(place, rank=activity.rank, note="keeps the process alive")
