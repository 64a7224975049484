"""Ranks that wait for each other in different groups because some alone called a collective, under a test of the rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.callsites import Comparison, compare
from ddpdoctor.analysis.collectives.group_deadlock import Deadlock, Deadlocks
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.source import SourceCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """A collective of a group that some members made, and that others passed by."""

    callers: tuple[int, ...]
    """The ranks that alone made it."""
    absent: tuple[int, ...]
    """The members that wait for the callers at a later line."""
    issued: Mapping[int, IssuedCall]
    """The call that each of all these ranks waits in."""
    comparison: Comparison
    """Has the test of the rank that the callers passed."""


@dataclass(frozen=True, slots=True)
class GuardedCalls:
    """One for each cycle of waits that such a call explains."""

    found: tuple[GuardedCall, ...]
    """At most one for each cycle of waits."""


def derive(deadlocks: Deadlocks, timeline: Timeline, code: SourceCode) -> GuardedCalls:
    """The calls under a test of the rank that members of their group have passed by, to wait for one of the callers."""
    groups = {group.name: group for group in timeline.groups}
    found = [next(_guarded(deadlock, groups, code), None) for deadlock in deadlocks.found]
    return GuardedCalls(tuple(one for one in found if one is not None))


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

    The caller has not come to the line of the rank, so that both are in one turn of the loops around them. Where the line is
    earlier, in a loop around both, a rank that came to it after the caller had called is in the next turn.
    """
    waits = deadlock.waits.get(rank)
    theirs = groups.get(waits.group) if waits is not None else None
    for caller in callers if waits is not None and theirs is not None else ():
        assert waits is not None
        assert theirs is not None
        if caller not in theirs.members or theirs.reached(caller) >= waits.seq:
            continue
        one, other = only_users(deadlock.waits[caller].program), only_users(waits.program)
        comparison = compare(one, other, code, (callers, (rank,)))
        here, there = next(((a, b) for a, b in zip(one, other, strict=False) if a != b), (None, None))
        if here is None or there is None or (here.file, here.function) != (there.file, there.function):
            continue
        came_later = deadlock.waits[caller].created_ns < waits.created_ns
        if comparison.decides and (here.line < there.line or (came_later and _in_one_loop(here, there, code))):
            return comparison
    return None


def _in_one_loop(here: Frame, there: Frame, code: SourceCode) -> bool:
    """Whether a loop of the function is around both lines: the later one may be earlier in its next turn."""
    one, other = code.at(here.file, here.line), code.at(there.file, there.line)
    return one is not None and other is not None and not {*one.loops}.isdisjoint(other.loops)
