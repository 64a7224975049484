"""The statement of the source that writes weights on some ranks alone, where nobody saw the line that did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.collectives.places.framework_requests import left_to_a_side, line_of
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Where


def by_some(code: SourceCode | None, ranks: Sequence[int], sides: Sequence[Sequence[int]]) -> Iterator[Where]:
    """The only such statement that a test of the rank leaves to one of these sides."""
    found = left_to_a_side(code, "weights", ranks, sides)
    for write, side in found.items() if len(found) == 1 else ():
        yield from (
            Where.at(line_of(write), rank=rank, note=f"`{write.text}`, under a test of the rank") for rank in side
        )
