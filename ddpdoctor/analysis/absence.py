"""Ranks that did not come to a collective in which others wait, as far as flight recorders alone can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.agreement import Disagreement
from ddpdoctor.analysis.timeline import GroupTimeline, Made, Timeline
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import State

MOVING_SECONDS = 2.0  # in a dump of a healthy job, taken at any moment, a rank is later than its peers by less


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """The ranks that others wait for: where in a group they should be, and the last call that each made in it."""

    absent: tuple[int, ...]
    waiting: Mapping[int, Made]
    last: Mapping[int, Made]


@dataclass(frozen=True, slots=True)
class Absences:
    """The absence in each group that has one, the longest in front; of the same ranks in several groups only that."""

    found: tuple[Absence, ...]


def derive(timeline: Timeline, exits: PerRank[RankExit] | None) -> Absences:
    """The absences; none for ranks that wait in another call, and none where ranks are known to have ended."""
    if exits is not None:
        return Absences(())
    busy = {rank for rank, record in timeline.archive.records.items() if set(record.state) - {State.DONE}}
    found = [absence for group in timeline.groups if (absence := _of_group(group, busy)) is not None]
    longest: dict[tuple[int, ...], Absence] = {}
    for absence in sorted(found, key=_began):
        longest.setdefault(absence.absent, absence)
    return Absences(tuple(longest.values()))


def _began(absence: Absence) -> int:
    return min(made.created_ns for made in absence.waiting.values())


def _of_group(group: GroupTimeline, busy: set[int]) -> Absence | None:
    waiting = {rank: made for rank, made in group.open.items() if made.seq == group.awaited}
    ages = [made.seconds for made in waiting.values() if made.seconds is not None]
    if not waiting or Disagreement.OPERATION in group.clashes or (ages and max(ages) < MOVING_SECONDS):
        return None
    absent = tuple(rank for rank in group.behind if rank not in busy)
    if not absent or len(absent) + len(group.open) < len(group.recorded):
        return None
    return Absence(
        absent=absent, waiting=waiting, last={rank: group.last[rank] for rank in absent if rank in group.last}
    )
