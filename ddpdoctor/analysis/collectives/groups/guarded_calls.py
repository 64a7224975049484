"""Ranks that wait for each other in different groups because some alone called a collective, under a test of the rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.groups.group_deadlock import Deadlock, Deadlocks
from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.rank_tests import Sides, exempted_rank
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, only_users, program_frames
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """A collective of a group that some members made, and that others passed by."""

    callers: tuple[int, ...]
    """The ranks that alone made it."""
    absent: tuple[int, ...]
    """The members that wait for the callers at a later line."""
    issued: Mapping[int, IssuedCall]
    """The collective that each of these ranks waits in."""
    comparison: Comparison
    """Has the test of the rank that the callers passed."""
    transfers: Mapping[int, CollectiveCall] = field(default_factory=dict)
    """The send or receive that the absent ranks wait in, where it is no collective."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """The callers; or the one absent rank, where the test lets all ranks but it come to the call: it left it out."""
        condition = self.comparison.condition
        exempted = exempted_rank(condition) if condition is not None else None
        return self.absent if self.absent == (exempted,) else self.callers


@dataclass(frozen=True, slots=True)
class GuardedCalls:
    """One for each cycle of waits that such a call explains."""

    found: tuple[GuardedCall, ...]
    """At most one for each cycle of waits."""


def derive(
    deadlocks: Deadlocks,
    timeline: Timeline,
    code: SourceCode,
    graph: WaitForGraph | None = None,
    calls: PerRank[CollectiveCalls] | None = None,
    stacks: PerRank[Stacks] | None = None,
) -> GuardedCalls:
    """The calls under a test of the rank that members of their group have passed by, to wait for one of the callers."""
    groups = {group.name: group for group in timeline.groups}
    found = [next(_guarded(deadlock, groups, code), None) for deadlock in deadlocks.found]
    if not found and graph is not None and graph.reason is Reason.CYCLE and calls is not None and stacks is not None:
        transfers = {entry.rank: call for entry in calls for call in entry.value.calls[-1:] if _is_open_transfer(call)}
        paths = {
            entry.rank: only_users(program_frames(entry.value.main.frames if entry.value.main else ()))
            for entry in stacks
        }
        found = [
            next((one for group in timeline.groups for one in _beside_transfers(group, transfers, paths, code)), None)
        ]
    return GuardedCalls(tuple(one for one in found if one is not None))


def _is_open_transfer(call: CollectiveCall) -> bool:
    return not call.returned and call.peer is not None


def _beside_transfers(
    group: GroupTimeline,
    transfers: Mapping[int, CollectiveCall],
    paths: Mapping[int, tuple[Frame, ...]],
    code: SourceCode,
) -> Iterator[GuardedCall]:
    """The call of a group whose other members all wait in sends or receives, some with those that made the call."""
    for seq in sorted({issued.seq for issued in group.open.values()}):
        callers = tuple(rank for rank, issued in group.open.items() if issued.seq == seq)
        absent = tuple(rank for rank in group.members if rank not in callers and group.reached(rank) < seq)
        pairs = [
            (group.open[caller], rank)
            for rank in absent
            for caller in callers
            if rank in transfers and transfers[rank].peer == caller
        ]
        passed = [
            _past_the_condition(
                issued.stack,
                paths.get(rank, ()),
                code,
                (callers, (rank,)),
                came_later=issued.created_ns < (transfers[rank].began_ns or 0),
            )
            for issued, rank in pairs
        ]
        comparisons = [one for one in passed if one is not None]
        if comparisons and len(comparisons) == len(pairs) and transfers.keys() >= {*absent}:
            yield GuardedCall(
                callers=callers,
                absent=absent,
                issued={rank: group.open[rank] for rank in callers},
                comparison=comparisons[0],
                transfers={rank: transfers[rank] for rank in absent},
            )


def _guarded(deadlock: Deadlock, groups: Mapping[str, GroupTimeline], code: SourceCode) -> Iterator[GuardedCall]:
    for (name, seq), callers in _by_call(deadlock).items():
        group = groups.get(name)
        if group is None:
            continue
        absent = tuple(rank for rank in group.members if rank not in callers and group.reached(rank) < seq)
        passed = {rank: _passed_by(rank, callers, deadlock, groups, code) for rank in absent}
        comparisons = [one for one in passed.values() if one is not None]
        if absent and len(comparisons) == len(absent):
            yield GuardedCall(
                callers=callers,
                absent=absent,
                issued={rank: deadlock.waits[rank] for rank in (*callers, *absent)},
                comparison=comparisons[0],
            )


def _by_call(deadlock: Deadlock) -> Mapping[tuple[str, int], tuple[int, ...]]:
    calls: dict[tuple[str, int], tuple[int, ...]] = {}
    for rank, issued in deadlock.waits.items():
        calls[issued.group, issued.seq] = (*calls.get((issued.group, issued.seq), ()), rank)
    return calls


def _passed_by(
    rank: int, callers: tuple[int, ...], deadlock: Deadlock, groups: Mapping[str, GroupTimeline], code: SourceCode
) -> Comparison | None:
    """How a rank stands to a caller for which it waits, at a later line: not under the test above the caller's call.

    The caller has not reached the line of the rank, so that both are in one turn of the loops around them. Where the line is
    earlier, in a loop around both, a rank that reached it after the caller had called is in the next turn.
    """
    waits = deadlock.waits.get(rank)
    theirs = groups.get(waits.group) if waits is not None else None
    for caller in callers if waits is not None and theirs is not None else ():
        assert waits is not None
        assert theirs is not None
        if caller not in theirs.members or theirs.reached(caller) >= waits.seq:
            continue
        came_later = deadlock.waits[caller].created_ns < waits.created_ns
        found = _past_the_condition(
            deadlock.waits[caller].stack, waits.stack, code, (callers, (rank,)), came_later=came_later
        )
        if found is not None and found.decides:
            return found
    return None


def _past_the_condition(
    one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode, sides: Sides, *, came_later: bool
) -> Comparison | None:
    """How the stack of a caller, under a condition, stands to that of a rank that has passed by its call.

    None where that rank may yet reach it.
    """
    comparison = compare(one, other, code, sides)
    here, there = next(((a, b) for a, b in zip(one, other, strict=False) if a != b), (None, None))
    if here is None or there is None or (here.file, here.function) != (there.file, there.function):
        return None
    if comparison.relation is not Relation.CONDITIONAL:
        return None
    return comparison if here.line < there.line or (came_later and _in_one_loop(here, there, code)) else None


def _in_one_loop(here: Frame, there: Frame, code: SourceCode) -> bool:
    """Whether a loop of the function is around both lines: the later one may be earlier in its next turn."""
    one, other = code.at(here.file, here.line), code.at(there.file, there.line)
    return one is not None and other is not None and not {*one.loops}.isdisjoint(other.loops)
