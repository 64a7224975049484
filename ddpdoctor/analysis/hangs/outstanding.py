"""The operations that ranks had enqueued and not completed when their dumps were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.hangs.lost_calls import not_kept
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.outstanding_transfers import (
    Batch,
    EndedByPartner,
    ended_by_partners,
    sends_and_receives,
    transfers_of,
    uneven,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """All operations that some rank waits in."""

    operations: tuple[Operation, ...]
    """Collectives, then sends and receives, each with the ranks that wait in it."""
    of_rank: Mapping[int, tuple[Operation, ...]]
    """The oldest outstanding operation of each group of a rank, in the order in which the rank enqueued them."""
    idle: tuple[int, ...]
    """The ranks with a dump in which nothing is outstanding."""
    not_kept: tuple[int, ...] = ()
    """The ranks whose ring buffer has lost calls that were outstanding: what they wait for may be older than all it holds."""
    ended_by_partners: tuple[EndedByPartner, ...] = ()
    """The sends that partners have received, with all others of their batches, and that did not end for the rank.

    Of a rank one, and only where it has waited for nothing longer. A receive tells nothing: a send can end before it begins.
    """

    uneven: frozenset[tuple[str, tuple[int, ...]]] = frozenset()
    """The groups, by name, and pairs of ranks between which one side has issued more sends or receives than the other."""

    doubtful: Mapping[Batch, Collection[int]] = field(default_factory=dict)
    """Batches with a half whose partner may not have reached it, and these partners: ring buffers have lost what tells."""

    def may_wait_for(self, operation: Operation) -> Iterator[int]:
        """The partners that the batches of this send and receive may wait for."""
        for rank, call in operation.waiting.items() if operation.group is None else ():
            yield from self.doubtful.get((rank, operation.link, call.seq), ())

    def oldest(self, rank: int) -> Operation | None:
        """What this rank has waited for the longest."""
        return self.of_rank[rank][0] if rank in self.of_rank else None

    @property
    def seconds(self) -> float | None:
        """The age of the oldest outstanding call, None where no dump shows when it was made."""
        return max((age for operation in self.operations for age in operation.ages), default=None)


def outstanding_of(timeline: Timeline) -> Outstanding:
    """What was outstanding on every rank, sends and receives included."""
    transfers = transfers_of(timeline)
    between, doubtful = sends_and_receives(transfers, timeline.call_index.records)
    operations = [*_collectives(timeline), *between]
    of_rank: dict[int, list[tuple[int, int, Operation]]] = defaultdict(list)
    for number, operation_ in enumerate(operations):
        for rank, call in operation_.waiting.items():
            of_rank[rank].append((call.entry, number, operation_))
    busy = {
        rank: tuple(operation_ for _, _, operation_ in sorted(mine, key=lambda one: one[:2]))
        for rank, mine in of_rank.items()
    }
    return Outstanding(
        operations=tuple(operations),
        of_rank=busy,
        idle=tuple(sorted(rank for rank in timeline.call_index.records if rank not in busy)),
        not_kept=tuple(sorted(not_kept(timeline.call_index.records))),
        ended_by_partners=tuple(ended_by_partners(timeline, transfers)),
        uneven=frozenset(uneven(transfers)),
        doubtful=doubtful,
    )


def _collectives(timeline: Timeline) -> Iterator[Operation]:
    for group in timeline.groups:
        waiting: dict[int, dict[int, IssuedCall]] = defaultdict(dict)
        for rank, call in group.open.items():
            waiting[call.seq][rank] = call
        if not waiting:
            continue
        recorded = timeline.call_index.records.keys()
        unknown = not group.group_sequences.members_known and group.backend != "gloo"
        without = tuple(rank for rank in (timeline.ranks if unknown else group.members) if rank not in recorded)
        for seq, calls in sorted(waiting.items()):
            yield Operation(
                group=group,
                name=min(calls.items())[1].name,
                seq=seq,
                members=group.members,
                waiting=calls,
                absent=tuple(rank for rank in group.recorded if group.reached(rank) < seq),
                without_dump=without,
            )
