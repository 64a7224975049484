"""Jumps that only some ranks take, and what they say of two places: a `continue` between them, a `return` out of a loop."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.collectives.places.rank_tests import (
    Sides,
    is_rank_test,
    lets_pass_named_ranks,
    parts,
    selects_ranks,
)
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, SourceCode, place_of


def by_continue(one: CodePlace, other: CodePlace, here: Frame, there: Frame, sides: Sides | None) -> Comparison | None:
    """Of two lines of one loop: the only `continue` between them, where its test lets only named ranks pass over the later one.

    Of lines in two loops: the `continue` above one of them, in the loop that only this one is in.
    """
    if not one.loops or one.loops != other.loops:
        return _by_continue_of_one_loop(one, other, here, there, sides)
    first, last = sorted((one.line, other.line))
    between = [jump for jump in one.loops[-1].jumps if jump.word == "continue" and first < jump.line < last]
    if len(between) != 1 or not lets_pass_named_ranks(between[0]):
        return None
    if one.line == last:
        return _passed_over(Relation.CONDITIONAL, between[0], here) if parts(between[0], sides) else None
    return _passed_over(Relation.UNCONDITIONAL, between[0], there) if parts(between[0], _turned(sides)) else None


def _by_continue_of_one_loop(
    one: CodePlace, other: CodePlace, here: Frame, there: Frame, sides: Sides | None
) -> Comparison | None:
    mine, theirs = _rank_passes_over(one, other, sides), _rank_passes_over(other, one, _turned(sides))
    if not {*one.loops} - {*other.loops} or not {*other.loops} - {*one.loops} or (mine is None) is (theirs is None):
        return None
    if mine is not None:
        return _passed_over(Relation.CONDITIONAL, mine, here)
    return _passed_over(Relation.UNCONDITIONAL, theirs, there) if theirs is not None else None


def _rank_passes_over(place: CodePlace, elsewhere: CodePlace, sides: Sides | None) -> Jump | None:
    """The `continue` by which named ranks pass over a line, of a loop around it and not around `elsewhere`."""
    jumps = (jump for loop in place.loops if loop not in elsewhere.loops for jump in loop.jumps)
    found = (jump for jump in jumps if jump.word == "continue" and jump.line < place.line and selects_ranks(jump.test))
    return next((jump for jump in found if parts(jump, sides)), None)


def _passed_over(relation: Relation, jump: Jump, frame: Frame) -> Comparison:
    """How two lines relate of which only those that do not take `jump` come to the later one, in this frame."""
    return Comparison(relation, condition=past(jump), frame=frame, jump=jump)


def by_a_return(
    one: tuple[Frame, ...], other: tuple[Frame, ...], code: SourceCode | None, sides: Sides | None
) -> Comparison | None:
    """The loop of a function that leads to one of the calls alone, where a `return` under a test of the rank leads out of it."""
    mine, theirs = _left_by_a_return(one, code, sides), _left_by_a_return(other, code, _turned(sides))
    if theirs is not None and mine is None:
        return Comparison(Relation.PAST, loop=theirs[0], frame=theirs[1])
    if mine is not None and theirs is None:
        return Comparison(Relation.WITHIN, loop=mine[0], frame=mine[1])
    return None


def _left_by_a_return(
    frames: tuple[Frame, ...], code: SourceCode | None, sides: Sides | None
) -> tuple[Loop, Frame] | None:
    """The outermost loop around one of these lines that the others may have left so; `sides` are the ranks in it first."""
    places = ((frame, place_of(code, frame)) for frame in frames if is_users(frame.file))
    loops = ((loop, frame) for frame, place in places if place is not None for loop in place.loops)
    return next((found for found in loops if any(_returns_by_rank(jump, sides) for jump in found[0].jumps)), None)


def _returns_by_rank(jump: Jump, sides: Sides | None) -> bool:
    return jump.word == "return" and is_rank_test(jump.test, by_rank=jump.by_rank) and parts(jump, sides)


def continues_between(one: CodePlace, other: CodePlace) -> bool:
    """Whether a `continue` is between two lines of one loop: a rank at the first of them may be in its next turn."""
    first, last = sorted((one.line, other.line))
    jumps = [jump for loop in one.loops if loop in other.loops for jump in loop.jumps]
    return any(jump.word == "continue" and first < jump.line < last for jump in jumps)


def past(jump: Jump) -> Condition:
    """What holds behind a jump that was not taken."""
    return replace(jump.condition, branch=0 if jump.branch else 1)


def _turned(sides: Sides | None) -> Sides | None:
    return sides and (sides[1], sides[0])
