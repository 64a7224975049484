"""Calls that ranks left out, or made besides, long before the one that their job hangs in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.model import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviatingCalls:
    """What one rank left out, or called besides."""

    rank: int
    """The rank that deviates."""
    calls: tuple[IssuedCall, ...]
    """The calls, the first one first; where it left them out, as a rank with the same part in the job made them."""
    left_out: bool
    """Whether it left them out."""
    breaks_pattern: bool
    """Whether it had always made them before."""

    @property
    def name(self) -> str:
        """`all_reduce #37 of group 3 (mesh_tp) and 1 more`."""
        first, *others = self.calls
        return first.name + (f" and {len(others)} more" if others else "")

    def where(self) -> Iterator[Where]:
        """The line of the first of these calls, where it is known."""
        place = self.calls[0].place
        if place is not None:
            note = "first left out here" if self.left_out else "first extra call here"
            yield Where.at(place, rank=self.rank, note=f"{note}: {self.name}")


def deviating_calls(graph: WaitForGraph) -> Iterator[DeviatingCalls]:
    """What the ranks at fault first left out, or called besides, as far as their records show."""
    for one in graph.first_deviations:
        calls = one.left_out or one.extra
        yield DeviatingCalls(rank=one.rank, calls=calls, left_out=bool(one.left_out), breaks_pattern=one.breaks_pattern)


def earlier(graph: WaitForGraph) -> Iterator[DeviatingCalls]:
    """Those of the group that the others wait in, that came before what they wait in, and are what the ranks are blamed for."""
    for operation in graph.operations[:1]:
        name = operation.group.name if operation.group is not None else operation.link
        for one in deviating_calls(graph):
            blamed = one.left_out is (graph.reason is Reason.LEFT_OUT)
            before = one.calls[0].created_ns < operation.created_ns
            here = all(call.group == name and call.seq != operation.seq for call in one.calls)
            if blamed and before and here:
                yield one
