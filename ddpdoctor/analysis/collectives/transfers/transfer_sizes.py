"""A send and its receive that do not end, and whose tensors are not of one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.analysis.hangs.operations import size_of
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalTransfer:
    """A send and its receive of different sizes."""

    send: IssuedCall
    """The send."""
    receive: IssuedCall
    """The receive."""
    ranks: tuple[int, ...]
    """The rank whose size no other rank sends or receives in groups of this kind; else both."""
    assumed: bool
    """Whether they may be of different transfers: ring buffers have lost how many came before."""


@dataclass(frozen=True, slots=True)
class UnequalTransfers:
    """The sends and receives of different sizes that all others wait for."""

    found: tuple[UnequalTransfer, ...]
    """The oldest first."""


def derive(graph: WaitForGraph, programs: ProgramComparison) -> UnequalTransfers:
    """Those among the operations that all members have enqueued and that do not end."""
    return UnequalTransfers(tuple(_unequal(graph, programs)) if graph.reason is Reason.STANDING else ())


def _unequal(graph: WaitForGraph, programs: ProgramComparison) -> Iterator[UnequalTransfer]:
    for operation in graph.operations:
        if (unequal := operation.unequal_halves) is not None:
            send, receive = unequal
            alone = [one.rank for one in (send, receive) if not _has_others(one, operation.link, programs)]
            ranks = alone if len(alone) == 1 else [send.rank, receive.rank]
            yield UnequalTransfer(send=send, receive=receive, ranks=tuple(sorted(ranks)), assumed=operation.assumed)


def _has_others(issued: IssuedCall, group: str, programs: ProgramComparison) -> bool:
    """Whether other ranks send or receive tensors of this size in groups of this kind."""
    label = programs.label(issued.rank, group)
    return any(
        call.point_to_point and size_of(call) == size_of(issued.calls[0])
        for rank, record in programs.records.items()
        if rank != issued.rank
        for call in record.calls
        if programs.labels(rank)[record.groups[call.group].name] == label
    )
