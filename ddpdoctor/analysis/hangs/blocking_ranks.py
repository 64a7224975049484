"""Who keeps whom waiting: the ranks that wait in a collective, those that do something else, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.crashes.own_ends import ended_by_themselves
from ddpdoctor.analysis.hangs.outstanding import outstanding_of
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.ranks_at_work import is_at_work
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.model import SkipCheck, Where, group_ranks, verb

_TELL_OF_NO_WAIT = frozenset({Activity.COMPUTING, Activity.GIL, Activity.IMPORTING, Activity.EXITING, Activity.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Who waits, and the ranks that do something else instead."""

    waiting: tuple[RankActivity, ...]
    """The ranks that wait for their peers, and those that wait for a file lock of another rank; none where all ranks wait at
    one line for something else."""
    elsewhere: tuple[RankActivity, ...]
    """The ranks that do something else; the others may wait for any of them."""
    seconds: float | None
    """For how long no rank has made progress; None where nobody knows."""
    held_up: tuple[RankActivity, ...] = ()
    """Those of `waiting` that wait for a file lock, which a rank that waits or one of `elsewhere` holds."""

    @property
    def locks(self) -> dict[tuple[RankActivity, str], tuple[RankActivity, ...]]:
        """By the holder and the path of each file lock whose holder waits for its peers, the ranks that wait for this lock."""
        holders = {one.rank: one for one in self.waiting if one.waits_for_peers}
        found: dict[tuple[RankActivity, str], list[RankActivity]] = {}
        for one in self.held_up:
            if one.holder in holders:
                path = one.process.waits_on if one.process is not None else None
                found.setdefault((holders[one.holder], path or "a file"), []).append(one)
        return {key: tuple(ranks) for key, ranks in found.items()}

    def culprits(self, *activities: Activity) -> tuple[RankActivity, ...]:
        """The ranks that keep the others waiting by one of these activities."""
        return tuple(activity for activity in self.elsewhere if activity.kind in activities)

    def may_go_on(self, culprits: Sequence[RankActivity]) -> bool:
        """Whether these ranks are at work, and nobody knows for how long the others have waited: a healthy job may look so."""
        return self.seconds is None and all(map(is_at_work, culprits))

    def who(self, culprits: Sequence[RankActivity]) -> str:
        """`rank 2 in prepare (job.py:12)`: the subject of a sentence about the culprits."""
        places = {activity.place for activity in culprits}
        place = places.pop() if len(places) == 1 else None
        spot = f" in {place.function} ({PurePath(place.file).name}:{place.line})" if place is not None else ""
        return f"{group_ranks([activity.rank for activity in culprits])}{spot}"

    def said_of(self, culprits: Sequence[RankActivity]) -> str:
        """`rank 2 in prepare (job.py:12) sleeps`, `ranks 1-2 in save (job.py:30): each waits for a lock`."""
        return f"{self.who(culprits)}{': each' if len(culprits) > 1 else ''} {culprits[0].description}"

    def wait_for(self, culprits: Sequence[RankActivity]) -> str:
        """`ranks 0-1,3 wait for it in backward for 6.1 s`: the end of a sentence about the culprits.

        `no rank made progress for 6.1 s` where they are all ranks.
        """
        how_long = f" for {self.seconds:.1f} s" if self.seconds is not None else ""
        if not self.waiting:
            return f"no rank made progress{how_long}"
        ranks = [activity.rank for activity in self.waiting]
        named = [one.operation for one in self.waiting if one.waits_for_peers and one.operation]
        locks = [_waits_in(one) for one in self.waiting if not one.waits_for_peers]
        ways = [*([f"in {' and '.join(sorted({*named}))}"] if named else []), *sorted({*locks})]
        where = f" {' and '.join(ways)}" if ways else ""
        them = verb(culprits, "it", "them")
        return f"{group_ranks(ranks)} {verb(ranks, 'waits', 'wait')} for {them}{where}{how_long}"

    def where(self, culprits: Sequence[RankActivity]) -> tuple[Where, ...]:
        """The culprits' places with what they do there, then those of the ranks that wait."""
        theirs = [_where(activity, f"{activity.description}{_effort(activity)}") for activity in culprits]
        others = [_where(one, f"waiting {_waits_in(one)}") for one in self.waiting if one not in culprits]
        return tuple(where for where in theirs + others if where is not None)


def derive(
    activities: Activities,
    stall: Stall | None,
    timeline: Timeline | None = None,
    exits: PerRank[RankExit] | None = None,
    size: JobSize | None = None,
) -> Hang:
    """The hang that the ranks' activities show.

    Raises:
        SkipCheck: no rank waits for its peers, so nobody keeps anybody waiting, or the job goes on.
    """
    everybody = (
        stall is not None and not ended_by_themselves(exits) and (size is None or len(activities.each) == size.ranks)
    )
    if not activities.waiting and not (everybody and _wait_alike(activities)):
        raise SkipCheck("no rank waits for another one")
    if stall is None:
        _refuse_what_goes_on(activities, timeline)
    held_up = _held_up(activities)
    return Hang(
        waiting=tuple(one for one in activities.each if one.waits_for_peers or one in held_up),
        elsewhere=tuple(one for one in activities.elsewhere if one not in held_up),
        seconds=stall.seconds if stall is not None else None,
        held_up=held_up,
    )


def _wait_alike(activities: Activities) -> bool:
    """Whether all these ranks wait at one line, for one kind of thing that is no peer."""
    alike = {(one.kind, one.place) for one in activities.each}
    still = all(one.moves is False for one in activities.each)
    return still and len(alike) == 1 and not any(kind in _TELL_OF_NO_WAIT for kind, _ in alike)


def _held_up(activities: Activities) -> tuple[RankActivity, ...]:
    """The ranks that wait for a file lock of a rank that waits for no lock itself, directly or through other such ranks."""
    for_locks = {one.rank: one for one in activities.elsewhere if one.kind is Activity.LOCK and one.holder is not None}
    found = []
    for one in for_locks.values():
        at, passed = one, set[int]()
        while at.rank not in passed and at.holder in for_locks:
            passed.add(at.rank)
            at = for_locks[at.holder]
        if at.rank not in passed and at.holder not in for_locks:  # not a ring of locks, nor a lock of its own
            found.append(one)
    return tuple(found)


def _refuse_what_goes_on(activities: Activities, timeline: Timeline | None) -> None:
    """Raise SkipCheck where one snapshot shows that the job goes on: a rank left its wait, imports, or waited briefly."""
    moving = [activity.rank for activity in activities.waiting if activity.moved]
    if moving:
        raise SkipCheck(
            f"the job goes on: {group_ranks(moving)} came out of the wait and was elsewhere at a second look"
        )
    importing = [activity.rank for activity in activities.elsewhere if activity.imports and activity.moves is True]
    if importing and len(importing) == len(activities.elsewhere):
        raise SkipCheck(f"the job goes on: modules are still imported on {group_ranks(importing)}")
    if timeline is not None and any(one.moves for one in activities.elsewhere):
        seconds = outstanding_of(timeline).seconds
        if seconds is not None and seconds < MOVING_SECONDS:
            raise SkipCheck(f"the job goes on: the oldest call that a rank waits in is {seconds:.1f} s old")


def _waits_in(activity: RankActivity) -> str:
    """`in barrier`, or `for a lock that rank 0 holds`."""
    if activity.waits_for_peers:
        return f"in {activity.operation or 'a collective'}"
    return f"for a lock that rank {activity.holder} holds"


def _where(activity: RankActivity, note: str) -> Where | None:
    if activity.place is None:
        return None
    place = activity.place
    return Where.at(place, rank=activity.rank, note=note)


def _effort(activity: RankActivity) -> str:
    """`, on CPU 97 %`: whether it moves at all."""
    share = activity.process.cpu_share if activity.process is not None else None
    return f", on CPU {100 * share:.0f} %" if share is not None else ""
