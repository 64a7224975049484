"""Ranks that make different numbers of turns of a loop with a collective in it, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.loops.unequal_iterations import UnequalIterations
from ddpdoctor.messages import ways_out
from ddpdoctor.model import Where, group_ranks

REMEDY = (
    "let all ranks make equally many turns: gather what the loop goes over, or what ends it, before the loop, and use the "
    "same on every rank"
)


def sentence(found: UnequalIterations) -> str:
    """`rank 1 left `for name in names` after 7 calls of all_reduce, and ranks 0,2 make one more`."""
    least = "" if found.all_made else "at least "
    calls = f"{least}{found.made} call{'' if found.made == 1 else 's'} of {found.op}"
    more = "makes one more" if len(found.further) == 1 else "make one more"
    return f"{group_ranks(found.left)} left `{found.loop.head}` after {calls}, and {group_ranks(found.further)} {more}"


def where(found: UnequalIterations) -> Iterator[Where]:
    """The statements by which ranks may have left the loop, or else its head."""
    out = [*ways_out.of_loops([(found.frame, found.loop)], found.left)]
    head = found.frame.at_line(found.loop.line)
    note = "ranks make different numbers of turns of this loop"
    yield from out or [Where.at(head, rank=rank, note=note) for rank in found.left]
