"""How two ranks' places in one program relate: past each other's loop, under a condition, in two branches of one `if`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ddpdoctor.analysis.collectives.places.conditions_above import condition_over, rank_test
from ddpdoctor.analysis.collectives.places.jumps_by_rank import by_a_return, by_continue, continues_between, past
from ddpdoctor.analysis.collectives.places.rank_tests import (
    Sides,
    asks_for_counts,
    exempted_rank,
    is_the_same_everywhere,
)
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.evidence.frames import Frame, is_users, only_users
from ddpdoctor.evidence.source import DESTRUCTOR, CodePlace, Condition, Loop, SourceCode, place_of

# it is the other side that did something
_OTHER_DEVIATES = {Relation.WITHIN, Relation.UNCONDITIONAL, Relation.AHEAD}
_ORDER_ONLY = {Relation.PAST, Relation.WITHIN, Relation.ELSEWHERE}


def compare(
    one: tuple[Frame, ...],
    other: tuple[Frame, ...],
    code: SourceCode | None,
    sides: Sides | None = None,
    further: tuple[bool, bool] | None = (False, False),
) -> Comparison:
    """Where the stack `one` stands, seen from `other`; both outermost first, with or without the frames of frameworks.

    The user's own frames tell first. Where they tell the order of two calls at most, as where a framework has the loop and
    calls the user's functions, or one place, those of the frameworks do. With `sides`, the ranks at `one` and those at `other`, a
    `continue` under a test of the rank counts only where it parts these. `further` is whether the call of the one, and that of
    the other, is of a later turn of a loop around both, and None where no record shows: the rank has passed over the other's
    call, and a condition above its own does not tell how they diverged.
    """
    users = only_users(one), only_users(other)
    if (unsteady := _on_one_side(*(_run_at_times(stack, code) for stack in users))) is not None:
        return unsteady
    recorded = further is not None
    if further is None:
        may_be = users != (one, other) or _may_share_a_loop(*users, code)
        further = (may_be, may_be)
    ends = one[-1:], other[-1:]
    found = _compare(
        _Pair(one=users[0], other=users[1], code=code, ends=ends, sides=sides, further=further, recorded=recorded)
    )
    if found.relation in (*_ORDER_ONLY, Relation.SAME) and found.loop is None:
        whole = _Pair(one=one, other=other, code=code, ends=ends, sides=sides, further=(True, True), recorded=recorded)
        return _by_frameworks(whole) or found
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two stacks, outermost frame first, and what is known of them: the arguments of `compare`."""

    one: tuple[Frame, ...]
    other: tuple[Frame, ...]
    code: SourceCode | None
    ends: tuple[tuple[Frame, ...], tuple[Frame, ...]]
    """The innermost frames, of frameworks too: a line above them is inside of a call."""
    sides: Sides | None
    further: tuple[bool, bool]
    recorded: bool
    """Whether records show which calls met: stacks alone do not tell a rank that left a loop from one that is a pass behind."""

    def in_one_function(self, depth: int) -> bool:
        """Whether both frames at this depth are of one function."""
        if depth == min(len(self.one), len(self.other)):
            return False
        here, there = self.one[depth], self.other[depth]
        return (here.file, here.function) == (there.file, there.function)


def _run_at_times(stack: tuple[Frame, ...], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """The destructor, the cached function or the handler of a signal on this stack: none of them runs at its turn."""
    for frame in stack:
        if frame.function == "__del__":
            return Condition(line=frame.line, test=DESTRUCTOR, branch=0), frame
        place = place_of(code, frame)
        for condition in place.conditions if place is not None else ():
            if condition.is_cache or condition.handles_a_signal:
                return condition, frame
    return None


def _by_frameworks(pair: _Pair) -> Comparison | None:
    """A test of the rank that is above one of the calls alone, or the framework's loop that only one of them is in."""
    one, other, code = pair.one, pair.other, pair.code
    if (only_users(one), only_users(other)) == (one, other):
        return None
    depth = _first_difference(one, other)
    tested = _by_rank_tests(one[depth:], other[depth:], code)
    if tested is not None or not pair.in_one_function(depth):
        return tested
    found = _by_first_difference(pair, depth)
    if found.loop is None and found.relation in (Relation.PAST, Relation.WITHIN):
        inside = other if found.relation is Relation.PAST else one
        found = replace(found, loop=_loop_in(inside[depth + 1 :], code), again=True)
    return found if found.loop is not None else None


def _may_share_a_loop(one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None) -> bool:
    """Whether a loop is around the first frames that differ, or it is not known."""
    frames = one[: _first_difference(one, other) + 1]
    places = [code.at(frame.file, frame.line) for frame in frames] if code is not None else [None]
    return any(place is None or bool(place.loops) for place in places)


def _loop_in(frames: tuple[Frame, ...], code: SourceCode | None) -> Loop | None:
    """The outermost loop that one of these frames is in: of a call that the other stack is past."""
    places = [code.at(frame.file, frame.line) for frame in frames] if code is not None else []
    return next((place.loops[0] for place in places if place is not None and place.loops), None)


def _loop_with_a_way_out(frames: tuple[Frame, ...], code: SourceCode | None) -> Loop | None:
    """The outermost loop around these frames that a statement of its own cuts short: its turns need not be all ranks' turns."""
    places = [code.at(frame.file, frame.line) for frame in frames] if code is not None else []
    loops = (loop for place in places if place is not None for loop in place.loops)
    return next((loop for loop in loops if loop.jumps), None)


def _first_difference(one: tuple[Frame, ...], other: tuple[Frame, ...]) -> int:
    """How many frames both share; the length of the shorter one where that is all."""
    differing = (depth for depth, (here, there) in enumerate(zip(one, other, strict=False)) if here != there)
    return next(differing, min(len(one), len(other)))


def _compare(pair: _Pair) -> Comparison:
    """`compare` by frames of one kind."""
    one, other = pair.one, pair.other
    if not one or not other:
        return Comparison(Relation.UNKNOWN)
    if one == other:
        return Comparison(Relation.SAME)
    depth = _first_difference(one, other)
    if not pair.in_one_function(depth):
        return _by_rank_tests(one[depth:], other[depth:], pair.code) or Comparison(Relation.ELSEWHERE)
    return _by_first_difference(pair, depth)


def _by_first_difference(pair: _Pair, depth: int) -> Comparison:
    """The relation of two lines of one function, which are the first frames that differ."""
    one, other, code = pair.one, pair.other, pair.code
    here, there = one[depth], other[depth]
    deeper, other_deeper = (stack[depth:] != end for stack, end in zip((one, other), pair.ends, strict=True))
    known = _both(here, there, code)
    if known is None:
        return _by_lines(here, there, inside=deeper, other_inside=other_deeper)
    found = _by_source(*known, here, inside=deeper, other_inside=other_deeper)
    if found.relation is not Relation.BRANCHES:
        tested = _by_rank_tests(one[depth:], other[depth:], code)
        found = tested or by_continue(*known, here, there, pair.sides) or found
    inside = one[depth + 1 :], other[depth + 1 :]
    returned = by_a_return(*inside, code, pair.sides) if found.loop is None and found.relation in _ORDER_ONLY else None
    if returned is not None:
        return returned
    if pair.recorded and found.loop is None and found.relation in (Relation.PAST, Relation.WITHIN):
        found = replace(found, loop=_loop_with_a_way_out(inside[found.relation is Relation.PAST], code))
    if found.loop is not None:
        again = _comes_again(one[:depth], known, code)
        return _before_the_loop(found, here, there) if again is False else replace(found, again=again is True)
    if found.relation in _ORDER_ONLY and not continues_between(*known):
        found = _by_conditions_inside(*inside, code, pair.further) or found
    return _with_telling_condition(found, one[depth:], other[depth:], code)


def _by_conditions_inside(
    one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None, further: tuple[bool, bool]
) -> Comparison | None:
    """A condition in the functions that lead to one of the calls alone: a rank that comes there may not make the call."""
    mine, theirs = deciding_condition(one, code), deciding_condition(other, code)
    return None if further[0 if theirs is None else 1] else _on_one_side(mine, theirs)


def _on_one_side(mine: tuple[Condition, Frame] | None, theirs: tuple[Condition, Frame] | None) -> Comparison | None:
    """The condition where only one of the calls is under one."""
    if mine is not None and theirs is None:
        return Comparison(Relation.CONDITIONAL, condition=mine[0], frame=mine[1])
    if theirs is not None and mine is None:
        return Comparison(Relation.UNCONDITIONAL, condition=theirs[0], frame=theirs[1])
    return None


def deciding_condition(frames: tuple[Frame, ...], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """The last condition above these frames of the user's that ranks of one job can answer differently, or a `return`'s."""
    users = tuple(frame for frame in frames if is_users(frame.file))
    return condition_over(users, code) or _not_returned(users, code)


def _not_returned(frames: tuple[Frame, ...], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """What held where the innermost of these functions went on past a `return` above its line; None where it has several."""
    for frame in reversed(frames):
        place = place_of(code, frame)
        above = [past(jump) for jump in (place.exits if place is not None else ()) if jump.line < frame.line]
        differing = [condition for condition in above if not is_the_same_everywhere(condition)]
        if differing:
            return (differing[0], frame) if len(differing) == 1 else None
    return None


def seen_from_minority(
    minority: tuple[int, ...],
    majority: tuple[int, ...],
    stacks: Mapping[int, tuple[Frame, ...]],
    code: SourceCode | None,
    *,
    tied: bool,
    further: Collection[int] | None = None,
) -> tuple[tuple[int, ...], tuple[int, ...], Comparison]:
    """The minority, the majority, and where the first of the minority stands; of two equal sides the source shows which to name.

    `further` are those that are a turn of a loop further, where records show: see `compare`.
    """
    ahead = (minority[0] in further, majority[0] in further) if further is not None else None
    comparison = compare(stacks[minority[0]], stacks[majority[0]], code, (minority, majority), ahead)
    if not tied or not _other_deviates(comparison, minority, majority):
        return minority, majority, comparison
    ahead = ahead and (ahead[1], ahead[0])
    return majority, minority, compare(stacks[majority[0]], stacks[minority[0]], code, (majority, minority), ahead)


def _other_deviates(comparison: Comparison, minority: tuple[int, ...], majority: tuple[int, ...]) -> bool:
    """Of two equal sides, whether it is the other that did something: a call too much, or not under `rank != N` as rank N."""
    exempted = exempted_rank(comparison.condition) if comparison.condition is not None else None
    if comparison.relation is Relation.CONDITIONAL:
        return majority == (exempted,)
    if comparison.relation is Relation.UNCONDITIONAL and minority == (exempted,):
        return False
    return comparison.relation in _OTHER_DEVIATES


def _with_telling_condition(
    found: Comparison, one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None
) -> Comparison:
    """Of several conditions the one that tells ranks apart is the one to show, or else the one next to the call."""
    if found.relation not in (Relation.CONDITIONAL, Relation.UNCONDITIONAL):
        return found
    under = one if found.relation is Relation.CONDITIONAL else other
    deciding = rank_test(under, code) or condition_over(under[1:], code)
    if deciding is None and found.condition is not None and asks_for_counts(found.condition.test):
        deciding = _not_returned(only_users(under[1:]), code)
    return found if deciding is None else Comparison(found.relation, condition=deciding[0], frame=deciding[1])


def _by_rank_tests(one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None) -> Comparison | None:
    """The order of two statements tells less than a test of the rank above one of the calls, or deeper in it."""
    return _on_one_side(rank_test(one, code), rank_test(other, code))


def _comes_again(above: tuple[Frame, ...], places: tuple[CodePlace, CodePlace], code: SourceCode | None) -> bool | None:
    """Whether an outer loop leads from behind an inner one to before it: `above` are the frames that both share.

    None where no loop is seen, and not all of the source is available.
    """
    one, other = places
    outer = [code.at(frame.file, frame.line) for frame in above] if code is not None else []
    if any(known is not None and known.loops for known in outer) or not set(one.loops).isdisjoint(other.loops):
        return True
    return None if None in outer else False


def _before_the_loop(found: Comparison, here: Frame, there: Frame) -> Comparison:
    """What a loop entered once tells: a line above it comes before it, and not after."""
    loop = found.loop
    assert loop is not None
    if found.relation is Relation.PAST and here.line < loop.line:
        return Comparison(Relation.BEFORE, loop=loop, frame=here)
    if found.relation is Relation.WITHIN and there.line < loop.line:
        return Comparison(Relation.AHEAD, loop=loop, frame=here)
    return found


def _both(here: Frame, there: Frame, code: SourceCode | None) -> tuple[CodePlace, CodePlace] | None:
    if code is None:
        return None
    one, other = code.at(here.file, here.line), code.at(there.file, there.line)
    return (one, other) if one is not None and other is not None else None


def _by_lines(here: Frame, there: Frame, *, inside: bool, other_inside: bool) -> Comparison:
    """Without source: later in one function than a call that the other is still inside of is past that call."""
    if here.line > there.line and other_inside and not inside:
        return Comparison(Relation.PAST, frame=here)
    if here.line < there.line and inside and not other_inside:
        return Comparison(Relation.WITHIN, frame=here)
    return Comparison(Relation.ELSEWHERE, frame=here)


def _by_source(one: CodePlace, other: CodePlace, frame: Frame, *, inside: bool, other_inside: bool) -> Comparison:
    branches = next(
        (mine for mine in one.conditions for theirs in other.conditions if mine.excludes(theirs)),
        None,
    )
    if branches is not None:
        return Comparison(Relation.BRANCHES, condition=branches, frame=frame)
    only_one = [loop for loop in one.loops if loop not in other.loops]
    only_other = [loop for loop in other.loops if loop not in one.loops]
    if only_other and not only_one:
        return Comparison(Relation.PAST, loop=only_other[0], frame=frame)
    if only_one and not only_other:
        return Comparison(Relation.WITHIN, loop=only_one[0], frame=frame)
    mine = [condition for condition in one.conditions if condition not in other.conditions]
    theirs = [condition for condition in other.conditions if condition not in one.conditions]
    if mine and not theirs:
        return Comparison(Relation.CONDITIONAL, condition=mine[-1], frame=frame)
    if theirs and not mine:
        return Comparison(Relation.UNCONDITIONAL, condition=theirs[-1], frame=frame)
    if one.line > other.line and other_inside:
        return Comparison(Relation.PAST, frame=frame)
    if one.line < other.line and inside:
        return Comparison(Relation.WITHIN, frame=frame)
    return Comparison(Relation.ELSEWHERE, frame=frame)
