"""Values that the source computes from the rank, in the functions that lead to a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import SourceCode, place_of
from ddpdoctor.model import Where


def where(
    issued: Mapping[int, IssuedCall], callers: Sequence[int], rank: int, code: SourceCode | None
) -> Iterator[Where]:
    """Those that compare the rank, or bound a loop, above the call of the first of `callers`, as lines of rank `rank`."""
    if callers and callers[0] in issued:
        yield from in_functions(issued[callers[0]].program, rank, code)


def in_functions(frames: Iterable[Frame], rank: int | None, code: SourceCode | None) -> Iterator[Where]:
    """Those in the functions of these frames, above their lines."""
    seen = set()
    for frame in frames if code is not None else ():
        place = place_of(code, frame)
        for value in place.rank_values if place is not None else ():
            tells = value.compares or value.limits or (place is not None and value.bounds(place.loops))
            if tells and (frame.file, value) not in seen:
                seen.add((frame.file, value))
                at = frame.at_line(value.line)
                yield Where.at(at, rank=rank, note=f"`{value.text}` depends on the rank")


def end_a_loop(issued: Mapping[int, IssuedCall], callers: Sequence[int], code: SourceCode | None) -> bool:
    """Whether one of these values is in the head of a loop around the call, and so says how often it turns."""
    program = issued[callers[0]].program if callers and callers[0] in issued else ()
    places = (code.at(frame.file, frame.line) for frame in program if code is not None)
    return any(value.in_head for place in places if place is not None for value in place.rank_values)
