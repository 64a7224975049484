"""Which of the ranks that made different calls under one number deviate, by ranks in other groups with the same part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from ddpdoctor.analysis.collectives.programs.first_deviation import FirstDeviations
from ddpdoctor.analysis.collectives.programs.program_comparison import ASKED_OF_A_SIDE, MOST_COMPARED, ProgramComparison
from ddpdoctor.analysis.collectives.programs.rank_program import CallKind
from ddpdoctor.analysis.collectives.recorders.matching import ALIKE_ON_EVERY_RANK, SAME_NAMES
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline
from ddpdoctor.evidence.recorder import Call

V = TypeVar("V", bound=Hashable)

MOST_BEFORE = 8  # calls before one that ranks with other parts made as well


@dataclass(frozen=True, slots=True)
class Deviation:
    """Ranks whose program differs from that of ranks with the same part in the job."""

    ranks: tuple[int, ...]
    """The ranks that deviate, sorted."""
    extra: int
    """How many calls more than the others each made, below 0 how many it left out; 0 where that is not known."""


def decide(
    programs: ProgramComparison,
    group_timeline: GroupTimeline,
    number: int,
    called: Mapping[int, V],
    value_of: Callable[[Call], V],
) -> Deviation | None:
    """Which of the ranks that made different calls `called` as collective `number` of this group differ from their like.

    Decided by how many calls each had made at a later point of its program; else by what ranks with their part in other
    groups made as this number.
    """
    group = group_timeline.group_sequences.group.name
    kinds = {
        rank: kind
        for rank in _a_few_of_each(called)
        if (kind := programs.kind(rank, group, point_to_point=False)) is not None
    }
    surplus = {
        rank: programs.surplus_at_the_end(rank, kind) if extra is None else extra
        for rank, kind in kinds.items()
        for extra in [programs.surplus(rank, kind, behind=number)]
    }
    deviating = {called[rank] for rank, extra in surplus.items() if extra}
    conforming = {called[rank] for rank, extra in surplus.items() if extra == 0}
    if deviating and conforming and deviating.isdisjoint(conforming):
        ranks = tuple(sorted(rank for rank in called if called[rank] not in conforming))
        return Deviation(ranks=ranks, extra=next(extra for extra in surplus.values() if extra))
    by_ends = _by_ends(programs, next(iter(kinds.values())), called) if len({*kinds.values()}) == 1 else None
    if by_ends is not None:
        return by_ends
    found = Counter(called.values())
    for rank, kind in kinds.items():
        found.update(value_of(call) for call in _calls_of_others(programs, rank, kind, number, called))
        (most, times), *others = found.most_common()
        if most in called.values() and (not others or others[0][1] < times) and times > 1:
            return Deviation(ranks=tuple(sorted(other for other in called if called[other] != most)), extra=0)
    return (
        _beside_other_parts(programs, kinds, number, called, value_of)
        or _by_pattern(programs, called)
        or _made_by_nobody_else(programs, kinds, number, called)
    )


def _beside_other_parts(
    programs: ProgramComparison,
    kinds: Mapping[int, CallKind],
    number: int,
    called: Mapping[int, V],
    value_of: Callable[[Call], V],
) -> Deviation | None:
    """The side that differs from all ranks of other groups of this kind, which made the same calls until now.

    Their own parts in the job may differ: a place in a pipeline is one.
    """
    if len({*kinds.values()}) != 1:
        return None
    rank, kind = next(iter(kinds.items()))
    found = Counter(
        value_of(call)
        for other in islice(programs.nearest(rank), MOST_COMPARED)
        if other not in called and _as_before(programs, rank, other, kind, number)
        for call in programs.calls_at(other, kind, number)
    )
    if len(found) != 1 or found.total() <= 2 or not {*found} < {*called.values()}:
        return None
    return Deviation(ranks=tuple(sorted(other for other in called if called[other] not in found)), extra=0)


def _as_before(programs: ProgramComparison, rank: int, other: int, kind: CallKind, number: int) -> bool:
    """Whether the last calls of this kind before `number` that both dumps hold are the same, two of them at least."""
    same = [
        (mine.op, mine.input_sizes) == (theirs.op, theirs.input_sizes)
        for before in range(number - 1, max(number - MOST_BEFORE, 0), -1)
        for mine in programs.calls_at(rank, kind, before)
        for theirs in programs.calls_at(other, kind, before)
    ]
    return len(same) > 1 and all(same)


def _by_pattern(programs: ProgramComparison, called: Mapping[int, V]) -> Deviation | None:
    """The side that left out a call which had always followed on both sides before."""
    deviations = FirstDeviations(programs)
    sides = {side: rank for rank, side in called.items()}
    if len(sides) != 2:
        return None
    one, other = sides.values()
    breaking = {
        called[rank]: len(found.left_out)
        for rank, like in ((one, other), (other, one))
        if (found := deviations.between(rank, like)) is not None and found.breaks_pattern
    }
    if len(breaking) != 1:
        return None
    ((side, left_out),) = breaking.items()
    return Deviation(ranks=tuple(sorted(rank for rank in called if called[rank] == side)), extra=-left_out)


def _made_by_nobody_else(
    programs: ProgramComparison, kinds: Mapping[int, CallKind], number: int, called: Mapping[int, V]
) -> Deviation | None:
    """The side whose call no other rank makes at any time in this kind of group, nor itself again, but that of the other side.

    Of operations to which all ranks give tensors of one shape: others may be of any shape. Where the operations differ, ranks
    with the same part are asked alone: a stage of a pipeline may have an operation of its own.
    """
    calls = {rank: call for rank, kind in kinds.items() for call in programs.calls_at(rank, kind, number)}
    operations = {SAME_NAMES.get(call.op, call.op) for call in calls.values()}
    if not operations <= ALIKE_ON_EVERY_RANK:
        return None
    makers: dict[V, int] = {}
    for rank, call in calls.items():
        asked = programs.nearest(rank) if len(operations) == 1 else programs.like(rank)
        others = (other for other in islice(asked, MOST_COMPARED) if other not in called)
        again = programs.times(rank, kinds[rank], call) > 1
        makers[called[rank]] = again + sum(programs.times(other, kinds[rank], call) > 0 for other in others)
    alone = [value for value, times in makers.items() if not times]
    usual = [value for value, times in makers.items() if times > 1]
    if len(alone) != 1 or len(usual) != 1 or {*alone, *usual} != {*called.values()}:
        return None
    return Deviation(ranks=tuple(sorted(rank for rank in called if called[rank] == alone[0])), extra=0)


def _by_ends(programs: ProgramComparison, kind: CallKind, called: Mapping[int, V]) -> Deviation | None:
    """The side that has made more or fewer calls of this kind, and as many of all others, where others are like the rest."""
    ends: dict[V, tuple[set[tuple[tuple[CallKind, int], ...]], int]] = {}
    for rank in _a_few_of_each(called):
        mine = programs.program(rank)
        others = [
            programs.program(other) for other in islice(programs.nearest(rank), MOST_COMPARED) if other not in called
        ]
        like = sum(other.part == mine.part and other.ends() == mine.ends() for other in others)
        found, times = ends.get(called[rank], (set(), 0))
        ends[called[rank]] = ({*found, mine.ends()}, max(times, like))
    alone = [value for value, (_, times) in ends.items() if not times]
    backed = [value for value, (_, times) in ends.items() if times > 1]
    if len(ends) != len(alone) + len(backed) or len(alone) != 1 or len(backed) != 1:
        return None
    if len(ends[alone[0]][0]) != 1 or len(ends[backed[0]][0]) != 1:
        return None
    (deviating,), (right,) = ends[alone[0]][0], ends[backed[0]][0]
    if {one for one, _ in {*deviating} ^ {*right}} != {kind}:
        return None
    ranks = tuple(sorted(rank for rank in called if called[rank] == alone[0]))
    return Deviation(ranks=ranks, extra=dict(deviating)[kind] - dict(right)[kind])


def _calls_of_others(
    programs: ProgramComparison, rank: int, kind: CallKind, number: int, besides: Collection[int]
) -> Iterator[Call]:
    part = programs.program(rank).part
    for other in islice(programs.nearest(rank), MOST_COMPARED):
        if other not in besides and programs.program(other).part == part:
            yield from programs.calls_at(other, kind, number)


def _a_few_of_each(called: Mapping[int, V]) -> list[int]:
    """The first ranks of each side: what holds for them holds for the others."""
    sides: dict[V, list[int]] = defaultdict(list)
    for rank in sorted(called):
        sides[called[rank]].append(rank)
    return [rank for ranks in sides.values() for rank in ranks[:ASKED_OF_A_SIDE]]
