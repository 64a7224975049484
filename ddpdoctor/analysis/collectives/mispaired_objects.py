"""Errors of ranks that read what another call of their peers had sent: of a collective that met one of another line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.groups.desync import is_in
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.analysis.crashes.failure import Failure, error_text
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Where

_READS_AN_OBJECT = re.compile(r"/torch/distributed/distributed_c10d\.py$")
_OF_BYTES = re.compile(r"(?:^|\.)(?:UnicodeDecodeError|UnpicklingError|EOFError)$")
FARTHEST = 3  # lines from a call to the one that reads what it has received


@dataclass(frozen=True, slots=True)
class MispairedObjects:
    """The failures of ranks whose last call had met another call of their peers, and that could not read what it received."""

    failures: tuple[Failure, ...]
    """One per rank that could not read what it received."""

    def where(self) -> Iterator[Where]:
        """The lines of the errors."""
        for failure in self.failures:
            if failure.error is not None:
                yield from failure.where(f"raised {error_text(failure.error)}, for what it received is of another call")


def derive(timeline: Timeline, failures: Failures) -> MispairedObjects:
    """Those errors of decoding bytes at the line of a call, or right behind it, that met one of another place."""
    met = [issued for group in timeline.groups for issued in _met_another(group)]
    return MispairedObjects(
        tuple(failure for failure in failures.own if any(_read_by(failure, issued) for issued in met))
    )


def met_behind_its_loop(departure: LoopDeparture, timeline: Timeline, code: SourceCode | None) -> bool:
    """Whether ranks past their loop made a call that met one of other size, of their peers in that loop."""
    return any(
        {*departure.ranks, *departure.others} <= {*mismatch.issued}
        and all(
            is_in(departure.loop, mismatch.issued[rank].program, code) is (rank in departure.others)
            for rank in (*departure.ranks, *departure.others)
        )
        for group in timeline.groups
        for mismatch in group.mismatches.values()
    )


def _met_another(group: GroupTimeline) -> Iterator[IssuedCall]:
    """The calls that differ between the ranks of a group and are at different places, the last of each rank."""
    for mismatch in group.mismatches.values():
        if len({issued.program for issued in mismatch.issued.values()}) > 1:
            for rank, issued in mismatch.issued.items():
                yield group.last.get(rank, issued)


def _read_by(failure: Failure, issued: IssuedCall) -> bool:
    error = failure.error
    if failure.rank != issued.rank or error is None:
        return False
    its: tuple[Frame, ...] = program_frames(error.stack)
    depth = len(its) - 1
    if not its or len(issued.program) <= depth or issued.program[:depth] != its[:depth]:
        return False
    line, call = its[depth], issued.program[depth]
    if (line.file, line.function) != (call.file, call.function):
        return False
    in_torch = any(
        _READS_AN_OBJECT.search(frame.file) and frame.function == "_tensor_to_object" for frame in error.stack
    )
    if in_torch:
        return line.line == call.line
    return bool(_OF_BYTES.search(error.type)) and call.line <= line.line <= call.line + FARTHEST
