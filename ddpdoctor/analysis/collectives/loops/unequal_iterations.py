"""A loop with a collective in each turn, which some ranks have left while others make an additional turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.groups.desync import Desync
from ddpdoctor.analysis.collectives.loops.loop_passes import runs_to_its_end
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Loop, SourceCode

MOST_TURNS = 10_000  # that are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalIterations:
    """Ranks that differ in the turns of one loop."""

    loop: Loop
    """The loop around the call that the ranks which left it are not in."""
    frame: Frame
    """The line in the loop that leads to the call."""
    op: str
    """The collective of each turn."""
    left: tuple[int, ...]
    """The ranks that have left the loop."""
    further: tuple[int, ...]
    """The ranks that make the call once more."""
    made: int
    """How often in a row the first rank that has left it had made the call."""
    all_made: bool
    """Whether it had made it no more often: else the records do not go back far enough."""


def unequal_iterations(desync: Desync, timeline: Timeline | None, code: SourceCode | None) -> UnequalIterations | None:
    """The loop whose turns differ, where all ranks made its call just before, and one side makes it again.

    Not the loop that the lines of the two sides are compared by: an outer loop may lead from behind it to before it.
    """
    if timeline is None or code is None or desync.comparison.condition is not None or desync.offset is not None:
        return None
    sides = (desync.minority, desync.majority)
    found = (_further(desync, timeline, code, further, left) for further, left in (sides, sides[::-1]))
    return next((one for one in found if one is not None and one.loop != desync.comparison.loop), None)


def _further(
    desync: Desync, timeline: Timeline, code: SourceCode, further: tuple[int, ...], left: tuple[int, ...]
) -> UnequalIterations | None:
    calls = [desync.issued[rank] for rank in further if rank in desync.issued]
    programs = {issued.program for issued in calls}
    if len(programs) != 1 or not (program := programs.pop()):
        return None
    issued = calls[0]
    loop = _left_by(desync, left, issued.stack, code)
    if loop is None or not all(_made(desync, timeline, rank, 1, program) for rank in (*further, *left)):
        return None
    made, all_made = _in_a_row(desync, timeline, left[0], program)
    return UnequalIterations(
        loop=loop[1], frame=loop[0], op=issued.op, left=left, further=further, made=made, all_made=all_made
    )


def _made(desync: Desync, timeline: Timeline, rank: int, before: int, program: tuple[Frame, ...]) -> bool | None:
    """Whether a rank made a call with this stack so many calls before the ranks diverged; None where that is not known."""
    made = timeline.issued(desync.group, rank, desync.seq - before)
    return made.program == program if made is not None else None


def _in_a_row(desync: Desync, timeline: Timeline, rank: int, program: tuple[Frame, ...]) -> tuple[int, bool]:
    """How many calls before the one at which the ranks diverged this rank made with the same stack, and whether that is all."""
    for turns in range(1, MOST_TURNS):
        if not (again := _made(desync, timeline, rank, turns + 1, program)):
            return turns, again is False or desync.seq - 1 == turns
    return MOST_TURNS, False


def _left_by(
    desync: Desync, left: Sequence[int], stack: Sequence[Frame], code: SourceCode
) -> tuple[Frame, Loop] | None:
    """The loop of a stack in which none of these ranks stands, with the frame in it; None where there are several.

    Of two loops, one in the other, either may be the one whose turns differ. None also where every rank makes as many of them.
    """
    stands = {
        (frame.file, loop)
        for rank in left
        if rank in desync.issued
        for frame in desync.issued[rank].stack
        for loop in _loops(frame, code)
    }
    found = [(frame, loop) for frame in stack for loop in _loops(frame, code) if (frame.file, loop) not in stands]
    return found[0] if len(found) == 1 and not runs_to_its_end(found[0][1]) else None


def _loops(frame: Frame, code: SourceCode) -> Sequence[Loop]:
    place = code.at(frame.file, frame.line)
    return place.loops if place is not None else ()
