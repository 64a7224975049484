"""One operation that ranks wait in: a collective, or a send with its receive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall
from ddpdoctor.evidence.recorder import Call

ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather", "_broadcast_oop", "_reduce_oop"})
"""Operations that one rank may complete before the others take part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One collective, or one send with its receive, that at least one rank waits in."""

    group: GroupTimeline | None
    """The process group of a collective, None for a send or receive."""
    name: str
    """As users read it: `all_reduce #41 of group 35 (TENSOR_MODEL_PARALLEL_GROUP)`."""
    seq: int
    """The number of the collective in its group; for a send or receive its place among those of the two ranks."""
    members: tuple[int, ...]
    """The global ranks that it needs."""
    waiting: Mapping[int, IssuedCall]
    """The call of each rank for which this is the oldest outstanding operation of its group."""
    absent: tuple[int, ...]
    """The members with a dump that have not enqueued it."""
    without_dump: tuple[int, ...]
    """The members of which there is no dump; where dumps of older versions do not tell these, all ranks without one."""
    link: str = ""
    """For a send or receive the name of the group that it is made in."""
    assumed: bool = False
    """Whether the send and the receive may be of different transfers: a ring buffer has lost how many came before."""

    @property
    def complete(self) -> bool:
        """Whether every member has a dump and has enqueued it."""
        return not self.absent and not self.without_dump

    @property
    def created_ns(self) -> int:
        """When the first of its ranks enqueued it."""
        return min(call.created_ns for call in self.waiting.values())

    @property
    def ages(self) -> list[float]:
        """How long each of its ranks had been in it when the rank's dump was made, in seconds; without those of unknown age."""
        return [call.seconds for call in self.waiting.values() if call.seconds is not None]

    @property
    def unequal_halves(self) -> tuple[IssuedCall, IssuedCall] | None:
        """Its send and its receive, where their tensors are not of one size; else None."""
        halves = {issued.op: issued for issued in self.waiting.values()} if self.group is None else {}
        if halves.keys() != {"send", "recv"}:
            return None
        send, receive = halves["send"], halves["recv"]
        return (send, receive) if size_of(send.calls[0]) != size_of(receive.calls[0]) else None

    @property
    def not_begun(self) -> list[int]:
        """The few ranks whose device has not begun it; nobody where the recorders do not look (TORCH_NCCL_ENABLE_TIMING)."""
        queued = [rank for rank, issued in sorted(self.waiting.items()) if not issued.started]
        return queued if 2 * len(queued) < len(self.waiting) else []

    @property
    def is_young(self) -> bool:
        """Whether a rank reached it as recently as in a healthy job."""
        return bool(self.ages) and min(self.ages) < MOVING_SECONDS


def size_of(call: Call) -> tuple[int, tuple[str, ...]]:
    """The elements of all tensors that a rank sends or receives, and their dtypes."""
    return sum(map(prod, call.input_sizes or call.output_sizes)), call.input_dtypes or call.output_dtypes
