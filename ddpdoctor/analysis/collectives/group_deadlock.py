"""Ranks that wait for each other in different process groups: each is where the other cannot come."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.hangs.wait_for_graph import MOVING_SECONDS, Reason, WaitForGraph
from ddpdoctor.analysis.majority import Vote, vote


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The ranks of one cycle and the call that each waits in; `sides` by the group that they are in first."""

    waits: Mapping[int, IssuedCall]
    sides: Vote


@dataclass(frozen=True, slots=True)
class Deadlocks:
    """Every cycle of ranks that wait for each other in different groups."""

    found: tuple[Deadlock, ...]


def derive(timeline: Timeline, graph: WaitForGraph | None) -> Deadlocks:
    """The cycles among the ranks' oldest unfinished calls; where all waits are known, the one that they end in."""
    if graph is not None and (graph.reason is not Reason.CYCLE or graph.begins_with_point_to_point):
        return Deadlocks(())
    within = {*graph.ranks} if graph is not None else {*timeline.ranks}
    cycle = {rank: issued for rank, issued in _cycle(timeline).items() if rank in within}
    found = [cycle] if cycle else [_inverted(one, other) for one, other in combinations(_busy(timeline, within), 2)]
    found = [waits for waits in found if waits and not _moves(waits)]
    oldest = sorted(found, key=lambda waits: min(issued.created_ns for issued in waits.values()))
    if graph is None:
        return Deadlocks(tuple(map(_deadlock, oldest)))
    return Deadlocks(tuple(_decided(_deadlock(waits), graph.deviating) for waits in oldest[:1]))


def _decided(deadlock: Deadlock, deviating: Collection[int]) -> Deadlock:
    """With these ranks as the minority, where ranks with the same part in the job tell them apart."""
    minority = tuple(rank for rank in deadlock.waits if rank in deviating)
    others = tuple(rank for rank in deadlock.waits if rank not in deviating)
    if not minority or not others:
        return deadlock
    return replace(deadlock, sides=Vote(sides=(others, minority), tied=False, minority=minority))


def _moves(waits: Mapping[int, IssuedCall]) -> bool:
    """Whether these calls are as young as those of a healthy job at any moment."""
    ages = [issued.seconds for issued in waits.values() if issued.seconds is not None]
    return bool(ages) and max(ages) < MOVING_SECONDS


def _busy(timeline: Timeline, ranks: Collection[int]) -> list[GroupTimeline]:
    return [group for group in timeline.groups if not {*group.open}.isdisjoint(ranks)]


def _deadlock(waits: Mapping[int, IssuedCall]) -> Deadlock:
    return Deadlock(waits=waits, sides=vote({rank: issued.group for rank, issued in waits.items()}))


def _cycle(timeline: Timeline) -> dict[int, IssuedCall]:
    """All ranks that are on a cycle: each waits in a group for a rank that waits in another group, and so on round."""
    waits: dict[int, tuple[GroupTimeline, IssuedCall]] = {}
    for group in timeline.groups:
        for rank, issued in group.open.items():
            if rank not in waits or issued.created_ns < waits[rank][1].created_ns:
                waits[rank] = (group, issued)
    elsewhere = {
        id(group): [rank for rank, (other, _) in waits.items() if other is not group]
        for group in timeline.groups
        if group.open
    }
    edges = {rank: {*_awaited(group, issued, elsewhere[id(group)])} for rank, (group, issued) in waits.items()}
    on_cycle = {rank for rank in edges if rank in _reachable(rank, edges)}
    return {rank: waits[rank][1] for rank in sorted(on_cycle)}


def _awaited(group: GroupTimeline, issued: IssuedCall, elsewhere: Sequence[int]) -> Iterator[int]:
    """The ranks that this call waits for and that wait `elsewhere`, in another group."""
    members = {*group.members} if elsewhere and group.group_sequences.members_known else None
    for other in elsewhere:
        if (members is None or other in members) and group.reached(other) < issued.seq:
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


def _inverted(one: GroupTimeline, other: GroupTimeline) -> dict[int, IssuedCall]:
    """The ranks that have calls of both groups under way, where they do not all have them in the same order.

    Where calls are queued on a device, nobody is behind: each group has what it needs, in the wrong order.
    """
    both = [rank for rank in one.open if rank in other.open]
    first = {rank: min(one.open[rank], other.open[rank], key=lambda issued: issued.created_ns) for rank in both}
    return first if len({issued.group for issued in first.values()}) > 1 else {}
