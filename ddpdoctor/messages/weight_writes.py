"""The statement of the source that writes or freezes weights on some ranks alone, where nobody saw the line that did."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ddpdoctor.analysis.collectives.places.framework_requests import left_to_a_side, line_of
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Where


def by_some(
    code: SourceCode | None, ranks: Sequence[int], sides: Sequence[Sequence[int]], *, wants: str = "weights"
) -> Iterator[Where]:
    """The only such statement that a test of the rank leaves to one of these sides; `wants` as in `Request.wants`."""
    found = left_to_a_side(code, wants, ranks, sides)
    for write, side in found.items() if len(found) == 1 else ():
        yield from (
            Where.at(line_of(write), rank=rank, note=f"`{write.text}`, under a test of the rank") for rank in side
        )


def by_name(code: SourceCode | None, ranks: Sequence[int], tensors: Collection[str]) -> Iterator[Where]:
    """The only statement that writes one of these `tensors` by its name, as `nn.init.zeros_(self.net.head.weight)` does."""
    found = [
        request
        for request in (code.requests if code is not None else ())
        if request.wants == "weights" and any(_names(request.text, tensor) for tensor in tensors)
    ]
    for write in found if len(found) == 1 else ():
        yield from (Where.at(line_of(write), rank=rank, note=f"`{write.text}`") for rank in ranks)


def _names(text: str, tensor: str) -> bool:
    """Whether a statement has this name, or its last two parts, behind the name of an object: `dec.weight`."""
    tail = ".".join(tensor.split(".")[-2:])
    return re.search(rf"\.{re.escape(tail)}\b", text) is not None
