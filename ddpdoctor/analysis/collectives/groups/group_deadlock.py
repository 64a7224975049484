"""Ranks that wait for each other in different process groups: each is where the other cannot come."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter

from ddpdoctor.analysis.collectives.programs.unlike_groups import rank_in_another_group
from ddpdoctor.analysis.collectives.programs.usual_course import usual_instead
from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.hangs.components import on_a_cycle
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.grouping import grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlock:
    """The ranks of one cycle."""

    waits: Mapping[int, IssuedCall]
    """The call that each of them waits in."""
    sides: Vote
    """The ranks by the group that they are in first, where groups with the same part in the job count as one."""
    wrong_group: bool = False
    """Whether the minority is the one rank whose group is none of those that are used at its line."""
    members: Mapping[str, tuple[int, ...]]
    """By name of a group in which they wait, its ranks; not of the default group, which has all, nor where they are unknown."""
    changed_order: bool = False
    """Whether the minority used the groups in another order before, and the others in the order in which they use them now."""


@dataclass(frozen=True, slots=True)
class Deadlocks:
    """Every cycle of ranks that wait for each other in different groups."""

    found: tuple[Deadlock, ...]
    """The one with the oldest call first."""


def derive(timeline: Timeline, graph: WaitForGraph | None) -> Deadlocks:
    """The cycles among the ranks' oldest unfinished calls; where all waits are known, the one that they end in."""
    if graph is not None and (graph.reason is not Reason.CYCLE or graph.begins_with_point_to_point):
        return Deadlocks(())
    if _moves(issued for group in timeline.groups for issued in group.open.values()):
        return Deadlocks(())
    within = {*graph.ranks} if graph is not None else {*timeline.ranks}
    cycle = {rank: issued for rank, issued in _cycle(timeline).items() if rank in within}
    found = [cycle] if cycle else [*_inverted(_busy(timeline, within))]
    if not found and graph is not None and graph.deviating:
        found = [dict(graph.meanwhile)]
    found = [waits for waits in found if not _moves(waits.values())]
    oldest = sorted(found, key=lambda waits: min(issued.created_ns for issued in waits.values()))
    parts = {group.name: group.group_sequences.group.description or group.name for group in timeline.groups}
    members = {
        group.name: group.members for group in timeline.groups if group.name and group.group_sequences.members_known
    }
    if graph is None:
        return Deadlocks(tuple(_by_order(_deadlock(waits, parts, members), timeline) for waits in oldest))
    return Deadlocks(tuple(_judged(_deadlock(waits, parts, members), graph, timeline) for waits in oldest[:1]))


def _judged(deadlock: Deadlock, graph: WaitForGraph, timeline: Timeline) -> Deadlock:
    """With the ranks as the minority that deviate from those with the same part, or the one in another group than at its line."""
    if graph.deviating:
        return _decided(deadlock, graph.deviating)
    unlike = rank_in_another_group(timeline, deadlock.waits)
    if unlike is not None:
        return replace(_decided(deadlock, (unlike,)), wrong_group=True)
    return _by_order(deadlock, timeline)


def _by_order(deadlock: Deadlock, timeline: Timeline) -> Deadlock:
    """With the ranks as the minority that use the groups in another order than before, where all others keep theirs."""
    made = {rank: _calls_of_groups(deadlock, rank, timeline) for rank in deadlock.waits}
    usual = {rank: usual_instead(calls) for rank, calls in made.items()}
    changed = [rank for rank, calls in made.items() if usual[rank] != calls[-1]]
    if None in usual.values() or not 0 < len(changed) < len(usual):
        return deadlock
    return replace(_decided(deadlock, changed), changed_order=True)


def _calls_of_groups(deadlock: Deadlock, rank: int, timeline: Timeline) -> list[int]:
    """The calls of a rank in the groups of the deadlock, as numbers of these groups, up to the one in which it waits."""
    records = timeline.call_index.records
    groups = [
        records[one].groups[records[one].calls[records[one].call[issued.entry]].group].name
        for one, issued in deadlock.waits.items()
    ]
    record = records[rank]
    of_call = [record.groups[call.group].name for call in record.calls]
    return [
        groups.index(of_call[call]) for call in record.call[: deadlock.waits[rank].entry + 1] if of_call[call] in groups
    ]


def _decided(deadlock: Deadlock, deviating: Collection[int]) -> Deadlock:
    """With these ranks as the minority, where ranks with the same part in the job tell them apart."""
    minority = tuple(rank for rank in deadlock.waits if rank in deviating)
    others = tuple(rank for rank in deadlock.waits if rank not in deviating)
    if not minority or not others:
        return deadlock
    return replace(deadlock, sides=Vote(sides=(others, minority), tied=False, minority=minority))


def _moves(waits: Iterable[IssuedCall]) -> bool:
    """Whether these calls are as young as those of a healthy job at any moment, as far as dumps show."""
    ages = [issued.seconds for issued in waits if issued.seconds is not None]
    return bool(ages) and max(ages) < MOVING_SECONDS


def _busy(timeline: Timeline, ranks: Collection[int]) -> list[GroupTimeline]:
    return [group for group in timeline.groups if not {*group.open}.isdisjoint(ranks)]


def _deadlock(
    waits: Mapping[int, IssuedCall], parts: Mapping[str, str], members: Mapping[str, tuple[int, ...]]
) -> Deadlock:
    """Groups with the same part in the job are one side: each of them has but a few of the ranks."""
    return Deadlock(
        waits=waits,
        sides=vote({rank: parts.get(one.group, one.group) for rank, one in waits.items()}),
        members={one.group: members[one.group] for one in waits.values() if one.group in members},
    )


def _cycle(timeline: Timeline) -> dict[int, IssuedCall]:
    """All ranks that are on a cycle: each waits in a group for a rank that waits in another group, and so on round."""
    waits: dict[int, tuple[GroupTimeline, IssuedCall]] = {}
    for group in timeline.groups:
        for rank, issued in group.open.items():
            if rank not in waits or issued.entry < waits[rank][1].entry:
                waits[rank] = (group, issued)
    calls = {(id(group), issued.seq): (group, issued.seq) for group, issued in waits.values()}
    edges: dict[object, Collection[object]] = {
        call: [
            rank
            for rank in (group.members if group.group_sequences.members_known else waits)
            if rank in waits and waits[rank][0] is not group and _lacks(group, rank, seq)
        ]
        for call, (group, seq) in calls.items()
    }
    edges.update({rank: [(id(group), issued.seq)] for rank, (group, issued) in waits.items()})
    on_cycle = on_a_cycle(edges)
    return {rank: waits[rank][1] for rank in sorted(waits) if rank in on_cycle}


def _lacks(group: GroupTimeline, rank: int, seq: int) -> bool:
    """Whether a rank that waits elsewhere first has not taken part in this call, which it may have enqueued behind that."""
    return group.reached(rank) < seq or (rank in group.open and group.open[rank].seq <= seq)


def _inverted(groups: Sequence[GroupTimeline]) -> Iterator[dict[int, IssuedCall]]:
    """The ranks that have calls of two groups under way, where they do not all have them in the same order.

    Where calls are queued on a device, nobody is behind: each group has what it needs, in the wrong order.
    """
    of_rank = grouped((rank, number) for number, group in enumerate(groups) for rank in group.open)
    first: dict[tuple[int, int], dict[int, IssuedCall]] = {}
    for rank in sorted(of_rank):
        for one, other in combinations(of_rank[rank], 2):
            both = (groups[one].open[rank], groups[other].open[rank])
            first.setdefault((one, other), {})[rank] = min(both, key=attrgetter("entry"))
    for _, waits in sorted(first.items(), key=lambda pair: pair[0]):
        if len({issued.group for issued in waits.values()}) > 1:
            yield waits
