"""The calls that ranks made behind the loop over their batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpdoctor.analysis.collectives.places.forward_loops import loop_of
from ddpdoctor.analysis.collectives.places.rank_tests import is_the_same_everywhere
from ddpdoctor.analysis.collectives.recorders.timeline import NAMES_OF_DEFAULT_GROUP, Timeline
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.source import Condition, Loop, SourceCode, place_of


def calls_behind(
    calls: Mapping[int, CollectiveCalls], code: SourceCode | None, timeline: Timeline | None
) -> Mapping[int, CollectiveCall]:
    """The last call of each of these ranks, if it came after its last forward and is behind the loop around that."""
    return {
        rank: call
        for rank, made in calls.items()
        for call in made.calls[-1:]
        if _is_behind(call, made, code, _program_of(call, rank, timeline))
    }


def _is_behind(
    call: CollectiveCall, made: CollectiveCalls, code: SourceCode | None, program: tuple[Frame, ...] = ()
) -> bool:
    """Whether this call is below the loop in its function, or in a function that led to that one, or was made from there.

    `program` are the lines that led to the call, where they are known.
    """
    forward = made.forwards[-1] if made.forwards else None
    frame, loop = loop_of(forward, code)
    place, after = call.place, made.steps[-1].seq if made.steps else 0
    if forward is None or frame is None or loop is None or place is None or call.seq is None or call.seq <= after:
        return False
    if (place.file, place.function) == (frame.file, frame.function):
        known = place_of(code, place)
        return known is not None and loop not in known.loops and place.line > loop.line
    to_the_loop = forward.stack[forward.stack.index(frame) :][::-1] if frame in forward.stack else ()
    if any((place.file, place.function) == (caller.file, caller.function) for caller in to_the_loop[:-1]):
        return True
    return _from_a_later_line(program, to_the_loop, loop, code)


def _from_a_later_line(
    program: Sequence[Frame], to_the_loop: Sequence[Frame], loop: Loop, code: SourceCode | None
) -> bool:
    """Whether the first of these lines, outermost first, that differs from those to the loop is below it in its function."""
    differing = next(((here, there) for here, there in zip(program, to_the_loop, strict=False) if here != there), None)
    if differing is None:
        return False
    here, there = differing
    known = code.at(here.file, here.line) if code is not None else None
    outside = there != to_the_loop[-1] or (known is not None and loop not in known.loops)
    return outside and (here.file, here.function) == (there.file, there.function) and here.line > there.line


def may_be_left_out(call: CollectiveCall, rank: int, timeline: Timeline | None, code: SourceCode | None) -> bool:
    """Whether a condition stands around a line that led to this call, so that others may never reach it."""
    lines = (call.place, *_program_of(call, rank, timeline))
    return any(not is_the_same_everywhere(one) for line in lines for one in _conditions(line, code))


def _program_of(call: CollectiveCall, rank: int, timeline: Timeline | None) -> tuple[Frame, ...]:
    """The lines that led to this call, outermost first, by the flight recorder; none where it does not tell."""
    if timeline is None or call.seq is None or call.group not in NAMES_OF_DEFAULT_GROUP:
        return ()
    groups = [group for group in timeline.groups if group.name in NAMES_OF_DEFAULT_GROUP]
    issued = timeline.issued(groups[0], rank, call.seq) if groups else None
    return issued.stack if issued is not None else ()


def _conditions(place: Frame | None, code: SourceCode | None) -> tuple[Condition, ...]:
    known = place_of(code, place)
    return known.conditions if known is not None else ()
