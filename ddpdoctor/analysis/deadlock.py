"""Ranks that wait for each other in different process groups: each is where the other cannot come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.analysis.timeline import GroupTimeline, Made, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The ranks of one cycle and the call that each waits in; `sides` by the group that they are in first."""

    waits: Mapping[int, Made]
    sides: Vote


@dataclass(frozen=True, slots=True)
class Deadlocks:
    """Every cycle of ranks that wait for each other in different groups."""

    found: tuple[Deadlock, ...]


def derive(timeline: Timeline) -> Deadlocks:
    """The cycles among the ranks' oldest unfinished calls."""
    cycle = _cycle(timeline)
    found = [_deadlock(cycle)] if cycle else []
    if not found:
        found = [
            _deadlock(waits) for one, other in combinations(timeline.groups, 2) if (waits := _inverted(one, other))
        ]
    return Deadlocks(tuple(found))


def _deadlock(waits: Mapping[int, Made]) -> Deadlock:
    return Deadlock(waits=waits, sides=vote({rank: made.group for rank, made in waits.items()}))


def _cycle(timeline: Timeline) -> dict[int, Made]:
    """All ranks that are on a cycle: each waits in a group for a rank that waits in another group, and so on round."""
    waits: dict[int, tuple[GroupTimeline, Made]] = {}
    for group in timeline.groups:
        for rank, made in group.open.items():
            if rank not in waits or made.created_ns < waits[rank][1].created_ns:
                waits[rank] = (group, made)
    elsewhere = {
        id(group): [rank for rank, (other, _) in waits.items() if other is not group]
        for group in timeline.groups
        if group.open
    }
    edges = {rank: {*_awaited(group, made, elsewhere[id(group)])} for rank, (group, made) in waits.items()}
    on_cycle = {rank for rank in edges if rank in _reachable(rank, edges)}
    return {rank: waits[rank][1] for rank in sorted(on_cycle)}


def _awaited(group: GroupTimeline, made: Made, elsewhere: Sequence[int]) -> Iterator[int]:
    """The ranks that this call waits for and that wait `elsewhere`, in another group."""
    members = {*group.members} if elsewhere and group.lane.told else None
    for other in elsewhere:
        if (members is None or other in members) and group.reached(other) < made.seq:
            yield other


def _reachable(start: int, edges: Mapping[int, set[int]]) -> set[int]:
    seen: set[int] = set()
    pending = [*edges[start]]
    while pending:
        rank = pending.pop()
        if rank not in seen:
            seen.add(rank)
            pending += edges.get(rank, ())
    return seen


def _inverted(one: GroupTimeline, other: GroupTimeline) -> dict[int, Made]:
    """The ranks that have calls of both groups under way, where they do not all have them in the same order.

    Where calls are queued on a device, nobody is behind: each group has what it needs, in the wrong order.
    """
    both = [rank for rank in one.open if rank in other.open]
    first = {rank: min(one.open[rank], other.open[rank], key=lambda made: made.created_ns) for rank in both}
    return first if len({made.group for made in first.values()}) > 1 else {}
