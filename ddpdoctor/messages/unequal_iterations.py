"""Ranks that make different numbers of turns of a loop with a collective in it, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.loops.unequal_iterations import UnequalIterations
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.wait_for_graph import WaitForGraph
from ddpdoctor.evidence.source import SourceCode, place_of
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


def additional_turns(graph: WaitForGraph, timeline: Timeline | None, code: SourceCode | None) -> list[Where]:
    """The heads of the loops in which the ranks at fault wait in the same call as in the turn before; empty of other calls."""
    found = []
    for operation in graph.operations:
        for rank in graph.ranks:
            issued = operation.waiting.get(rank)
            if issued is None or operation.group is None or timeline is None or not issued.program:
                continue
            before = timeline.issued(operation.group, rank, operation.seq - 1)
            frame = issued.stack[-1]
            place = place_of(code, frame)
            if before is not None and before.program == issued.program and place is not None and place.loops:
                loop = place.loops[-1]
                note = f"the loop `{loop.head}` makes one more turn than before"
                found.append(Where.at(frame.at_line(loop.line), rank=rank, note=note))
    return found
