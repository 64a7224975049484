"""Which rank waits for which, over all process groups at once, and the ranks that all others wait for in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ddpdoctor.analysis.collectives.programs.first_deviation import FirstDeviation
from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.stopped_ranks import UncompletedCall
from ddpdoctor.model import group_ranks, verb


class Reason(Enum):
    """Why the ranks at the end of all waits do not go on."""

    MISSING = "left no dump"
    OLDER = "left a dump that is from before its peers began to wait for it"
    RECORDED_NOTHING = "left a dump without an entry, though it took part in what its peers completed"
    STOPPED = "enqueued what its peers have completed, and did not complete it"
    IDLE = "has nothing outstanding, and did not enqueue what its peers wait in"
    LEFT_OUT = "did not make a call that ranks with the same part in the job made"
    EXTRA = "made a call that ranks with the same part in the job did not make"
    TURNS_AGAIN = "makes one more turn of a loop that ranks with the same part in the job have left"
    MISMATCH = "called different things under one number"
    STANDING = "all members have enqueued it, and it does not end"
    CYCLE = "wait for each other"
    NOT_KEPT = "wait in calls that their ring buffers have lost"
    MOVED = "may have been on their way when their dumps were made: the files do not tell when that was"


_FOR_A_MOMENT = (Reason.IDLE, Reason.STANDING, Reason.MISSING)  # a healthy job can look like this
UNDATED = (
    "the files do not tell when the dumps were made: a job that one rank keeps waiting for a moment looks the same, and has "
    "other numbers in a second dump some seconds later"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForGraph:
    """What all waits of a job lead to."""

    reason: Reason
    """Why the ranks that others wait for do not go on."""
    ranks: tuple[int, ...]
    """The ranks that the others wait for; those of a cycle, the members of operations that do not end, or those of which the
    ring buffers do not tell."""
    operations: tuple[Operation, ...]
    """What the others wait in for these ranks, the oldest first; of those that stand, one for each place that is stuck."""
    waiting: tuple[int, ...]
    """The ranks that wait for them, directly or through others."""
    groups: int
    """The number of process groups in which these wait."""
    meanwhile: Mapping[int, IssuedCall] = field(default_factory=dict)
    """The oldest outstanding call of each of these ranks that has one."""
    tied: bool = False
    """Whether no majority shows if some ranks left a call out or the others made one more."""
    deviating: tuple[int, ...] = ()
    """Of a cycle, the ranks that made its calls in another order than ranks with the same part in the job."""
    first_deviations: tuple[FirstDeviation, ...] = ()
    """For ranks that left calls out, or made some besides: where they first did, as far as dumps show."""
    behind: tuple[UncompletedCall, ...] = ()
    """For ranks that stopped: what each has not completed and its peers have, the oldest first."""
    recorded_nothing: tuple[int, ...] = ()
    """Ranks whose dumps hold no entry, though they took part in what their peers completed."""
    without_dump: tuple[int, ...] = ()
    """Members of process groups that left no dump."""
    by_turns: bool = False
    """Whether a rank's own turns of its loop before tell that it deviates, and not ranks with the same part in the job."""
    motion: str = ""
    """What shows that the job may have moved."""

    def details(self) -> tuple[str, ...]:
        """`13 other ranks wait for it, directly or through others, in 21 process groups`, and which ranks left no dump.

        Nothing where one group says it all, and where all left one or those that did not are at fault. Where no file tells when
        the dumps were made, that a job on its way can look the same.
        """
        others = len({*self.waiting} - {*self.ranks})
        sentences = []
        if others and self.groups > 1:
            them = verb(self.ranks, "it", "them")
            wait = "rank waits" if others == 1 else "ranks wait"
            sentences.append(
                f"{others} other {wait} for {them}, directly or through others, in {self.groups} process groups"
            )
        if self.without_dump and self.reason is not Reason.MISSING:
            sentences.append(f"{group_ranks(self.without_dump)} left no dump: it is open what happened there")
        if self.reason in _FOR_A_MOMENT and not any(operation.ages for operation in self.operations):
            sentences.append(UNDATED)
        return tuple(sentences)

    def awaiting(self, ranks: Collection[int]) -> Iterator[tuple[Operation, tuple[int, ...]]]:
        """For each of these ranks the oldest operation that lacks it, collectives first, with all of the ranks that it lacks."""
        oldest: dict[int, tuple[Operation, list[int]]] = {}
        for rank in sorted(ranks):
            lacking = [one for one in self.operations if rank in one.absent or rank in one.without_dump]
            found = min(lacking, key=lambda one: one.group is None, default=None)
            if found is not None:
                oldest.setdefault(id(found), (found, []))[1].append(rank)
        yield from ((operation, tuple(lacking)) for operation, lacking in oldest.values())

    def last_calls(self) -> dict[int, IssuedCall]:
        """For each rank that others wait for, the last collective that it called in the group in which they do."""
        return {
            rank: operation.group.last[rank]
            for operation, lacking in self.awaiting(self.ranks)
            for rank in lacking
            if operation.group is not None and rank in operation.group.last
        }

    @property
    def begins_with_point_to_point(self) -> bool:
        """Whether the first operation that some ranks wait in first, and others do not, is a send or receive.

        What a rank has enqueued behind the call that it waits in is not reached yet: there, peers lack nothing.
        """
        first = next(
            (
                operation
                for operation in self.operations
                if self._lacks(operation) and self._is_waited_in_first(operation)
            ),
            None,
        )
        return first is not None and first.group is None

    def _lacks(self, operation: Operation) -> bool:
        """Whether it lacks a rank: one has not enqueued it, or, of a collective, has enqueued it behind what it waits in."""
        behind = (self.meanwhile.get(rank, issued) is not issued for rank, issued in operation.waiting.items())
        return bool(operation.absent) or (operation.group is not None and any(behind))

    def _is_waited_in_first(self, operation: Operation) -> bool:
        return any(self.meanwhile.get(rank) is issued for rank, issued in operation.waiting.items())

    @property
    def only_point_to_point(self) -> bool:
        """Whether all that is waited in is sends and receives."""
        return all(operation.group is None for operation in self.operations)


@dataclass(frozen=True, slots=True)
class FinalWait:
    """What some waits end in: as in `WaitForGraph`, before it is known who waits for it."""

    reason: Reason
    """Why `ranks` do not go on."""
    ranks: tuple[int, ...]
    """The ranks at the end of these waits."""
    operations: tuple[Operation, ...]
    """What is waited in for them, the oldest first."""
    tied: bool = False
    """Whether no majority shows which side is at fault."""
    deviating: tuple[int, ...] = ()
    """Of a cycle, the ranks that made its calls in another order."""
    by_turns: bool = False
    """See `WaitForGraph`."""

    @property
    def is_young(self) -> bool:
        """Whether a healthy job shows it at any moment: the last ranks reached it, or all ranks of a cycle, a moment ago."""
        if self.reason is Reason.MISMATCH:
            return False
        if self.reason is Reason.STANDING:
            return all(operation.is_young for operation in self.operations)
        return not any(map(is_old, self.operations))


def is_old(operation: Operation) -> bool:
    """Whether one of its ranks has waited in it for longer than in a healthy job; also where no dump shows."""
    return max(operation.ages, default=MOVING_SECONDS) >= MOVING_SECONDS
