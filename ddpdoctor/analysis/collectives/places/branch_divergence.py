"""Calls of ranks in one turn of their loops on two call paths: two functions called at one line, or two branches of an `if`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpdoctor.analysis.collectives.places.rank_tests import names_a_rank, ranks_under
from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.source import Condition, EarlierCall, SourceCode
from ddpdoctor.evidence.stacks import Stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """The first call of a rank behind the point at which its path diverged from that of others."""

    op: str
    """The function of torch.distributed: `all_reduce`."""
    place: Frame
    """The line of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDivergence:
    """What ranks called on two call paths."""

    calls: Mapping[int, FirstCall]
    """The first call of each rank that made one, by rank."""
    conditions: Mapping[int, Condition] = field(default_factory=dict)
    """By rank, the test above its call."""
    frame: Frame | None = None
    """The line at which all ranks stand; None where they are in two functions."""


def by_functions(
    paths: Mapping[int, tuple[Frame, ...]], stacks: Mapping[int, Stacks], code: SourceCode
) -> BranchDivergence | None:
    """Ranks in two functions that one line calls; None where what they called there first is not known for certain.

    Nothing else in front of that call may communicate, and it is of the default group.
    """
    depth = _divergence(list(paths.values()))
    if depth is None:
        return None
    calls = {rank: _first(path[depth], stacks[rank], code) for rank, path in paths.items()}
    known = {rank: call for rank, call in calls.items() if call is not None}
    return BranchDivergence(calls=known) if len(known) == len(calls) else None


def by_branches(path: tuple[Frame, ...], ranks: Sequence[int], code: SourceCode) -> BranchDivergence | None:
    """Ranks that are behind `if`s whose tests tell which of them took which branch, with different calls in the branches.

    `path` is the call path of all these ranks; only its innermost function is examined. Two such `if`s together may have one
    sequence of calls for every rank. None where an `if` with a call has another test, or a call may be of another group.
    """
    place = code.at(path[-1].file, path[-1].line) if path else None
    if place is None or not place.branches:
        return None
    made: dict[int, list[tuple[EarlierCall, Condition | None]]] = {
        rank: [(call, None) for call in place.collectives] for rank in ranks
    }
    for branches in place.branches:
        through = ranks_under(branches.condition, ranks)
        if not names_a_rank(branches.condition.test) or not 0 < len(through) < len(ranks):
            return None
        for rank in ranks:
            calls = branches.taken if rank in through else branches.other
            made[rank] += [(call, replace(branches.condition, branch=0 if rank in through else 1)) for call in calls]
    if any(call.grouped for calls in made.values() for call, _ in calls):
        return None
    inorder = {rank: sorted(calls, key=lambda one: one[0].line) for rank, calls in made.items()}
    longest = max(map(len, inorder.values()))
    at = next((at for at in range(longest) if len({_op(calls, at) for calls in inorder.values()}) > 1), None)
    if at is None:
        return None
    differing = {rank: calls[at] for rank, calls in inorder.items() if len(calls) > at}
    return BranchDivergence(
        calls={rank: FirstCall(op=call.op, place=path[-1].at_line(call.line)) for rank, (call, _) in differing.items()},
        conditions={rank: condition for rank, (_, condition) in differing.items() if condition is not None},
        frame=path[-1],
    )


def _op(calls: Sequence[tuple[EarlierCall, Condition | None]], at: int) -> str | None:
    return calls[at][0].op if at < len(calls) else None


def _divergence(paths: Sequence[tuple[Frame, ...]]) -> int | None:
    """The depth at which all these call paths are in functions that one line calls, of which there are two, and stand there."""
    depth = min(map(len, paths)) - 1
    if depth < 1 or any(len(path) != depth + 1 for path in paths) or len({path[:depth] for path in paths}) != 1:
        return None
    return depth if len({(path[depth].file, path[depth].function) for path in paths}) == 2 else None


def _first(frame: Frame, stacks: Stacks, code: SourceCode) -> FirstCall | None:
    """The first collective of this function, in which a rank stands."""
    place = code.at(frame.file, frame.line)
    if place is None or place.loops or place.conditions or not place.straight or place.grouped:
        return None
    if place.collectives:
        first = place.collectives[0]
        return None if first.grouped else FirstCall(op=first.op, place=frame.at_line(first.line))
    main = stacks.main.frames if stacks.main is not None else ()
    above = main[: main.index(frame)] if frame in main else ()
    inner = [one.function for one in above if one.file.endswith("/torch/distributed/distributed_c10d.py")]
    return FirstCall(op=inner[-1], place=frame) if inner and not program_frames(above) else None
