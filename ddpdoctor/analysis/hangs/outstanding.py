"""The operations that ranks had enqueued and not completed when their dumps were made, and how far each rank had come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count

from ddpdoctor.analysis.collectives.call_sequences import END_OF_COALESCED, CallSequence, users_stack
from ddpdoctor.analysis.collectives.matching import operation
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline, age
from ddpdoctor.evidence.recorder import FlightRecord, State

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
    """The members of which there is no dump."""
    link: tuple[str, str] = ("", "")
    """For a send or receive the description and the name of the group that it is made in."""

    @property
    def complete(self) -> bool:
        """Whether every member has a dump and has enqueued it."""
        return not self.absent and not self.without_dump

    @property
    def created_ns(self) -> int:
        """When the first of its ranks enqueued it."""
        return min(call.created_ns for call in self.waiting.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """All operations that some rank waits in."""

    operations: tuple[Operation, ...]
    of_rank: Mapping[int, tuple[Operation, ...]]
    """The oldest outstanding operation of each group of a rank, in the order in which the rank enqueued them."""
    idle: tuple[int, ...]
    """The ranks with a dump in which nothing is outstanding."""

    def oldest(self, rank: int) -> Operation | None:
        """What this rank has waited for the longest."""
        return self.of_rank[rank][0] if rank in self.of_rank else None

    @property
    def seconds(self) -> float | None:
        """The age of the oldest outstanding call, None where no dump tells when it was made."""
        calls = (call for operation in self.operations for call in operation.waiting.values())
        return max((call.seconds for call in calls if call.seconds is not None), default=None)


def outstanding_of(timeline: Timeline) -> Outstanding:
    """What was outstanding on every rank, sends and receives included."""
    operations = [*_collectives(timeline), *_sends_and_receives(timeline)]
    of_rank: dict[int, list[tuple[int, int, Operation]]] = defaultdict(list)
    for number, operation_ in enumerate(operations):
        for rank, call in operation_.waiting.items():
            of_rank[rank].append((call.created_ns, number, operation_))
    busy = {
        rank: tuple(operation_ for _, _, operation_ in sorted(mine, key=lambda one: one[:2]))
        for rank, mine in of_rank.items()
    }
    return Outstanding(
        operations=tuple(operations),
        of_rank=busy,
        idle=tuple(sorted(rank for rank in timeline.call_index.records if rank not in busy)),
    )


def completed_by(timeline: Timeline, group: GroupTimeline) -> dict[int, int]:
    """The number of the last collective of the group that each rank has completed, where its dump tells it."""
    found = {}
    for sequence in group.group_sequences.sequences:
        record = timeline.call_index.records[sequence.rank]
        last = _last_done(sequence, record.state)
        found[sequence.rank] = last if last is not None else _by_status(record, group)
    return {rank: seq for rank, seq in found.items() if seq is not None}


def _last_done(sequence: CallSequence, states: Sequence[State]) -> int | None:
    for place in range(len(sequence.entries) - 1, -1, -1):
        entry = sequence.entries[place]
        if entry >= 0 and states[entry] is State.DONE:
            return sequence.first + place
    return None


def _by_status(record: FlightRecord, group: GroupTimeline) -> int | None:
    """What the dump's table of groups says; of a group with sends and receives it may count these instead."""
    wanted = group.group_sequences.group.name
    for number, one in enumerate(record.groups):
        if one.name == wanted and one.last_completed is not None:
            between = any(call.group == number and call.point_to_point for call in record.calls)
            return None if between else one.last_completed
    return None


def _collectives(timeline: Timeline) -> Iterator[Operation]:
    for group in timeline.groups:
        waiting: dict[int, dict[int, IssuedCall]] = defaultdict(dict)
        for rank, call in group.open.items():
            waiting[call.seq][rank] = call
        if not waiting:
            continue
        recorded = {*group.recorded}
        without = tuple(rank for rank in group.members if rank not in recorded)
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


@dataclass(frozen=True, slots=True)
class _Pair:
    """The sends of one rank to another one in one group."""

    group: str
    description: str
    source: int
    target: int


def _sends_and_receives(timeline: Timeline) -> Iterator[Operation]:
    posted: dict[tuple[_Pair, str], list[tuple[int, IssuedCall]]] = defaultdict(list)
    counted: dict[tuple[_Pair, str], int] = defaultdict(int)
    for rank, record in timeline.call_index.records.items():
        for pair, op, call in _under_way(rank, record):
            posted[pair, op].append((counted[pair, op], call))
            counted[pair, op] += 1
    if not posted:
        return
    issued = _counted(timeline)
    with_dump = timeline.call_index.records.keys()
    for pair in dict.fromkeys(pair for pair, _ in posted):
        sends, receives = posted.get((pair, "send"), []), posted.get((pair, "recv"), [])
        waiting = {call.rank: call for side in (sends, receives) for _, call in side[:1]}
        members = tuple(sorted((pair.source, pair.target)))
        sent, received = issued.get((pair, "send"), -1), issued.get((pair, "recv"), -1)
        through = {pair.source} if received <= sent else {pair.target} if sent <= received else set()
        others = [rank for rank in members if rank not in waiting and (rank not in through or -1 in (sent, received))]
        yield Operation(
            group=None,
            name=f"the send from rank {pair.source} to rank {pair.target}",
            seq=min(number for side in (sends, receives) for number, _ in side[:1]),
            members=members,
            waiting=waiting,
            absent=tuple(rank for rank in others if rank in with_dump),
            without_dump=tuple(rank for rank in others if rank not in with_dump),
            link=(pair.description, pair.group),
        )


def _counted(timeline: Timeline) -> dict[tuple[_Pair, str], int]:
    """How many sends and receives each pair of ranks has issued, of ranks whose recorder still holds all of them."""
    found: dict[tuple[_Pair, str], int] = defaultdict(int)
    for record in timeline.call_index.records.values():
        if record.lost or not any(call.point_to_point for call in record.calls):
            continue
        for number, times in Counter(record.call).items():
            call = record.calls[number]
            if call.source is not None and call.target is not None:
                group = record.groups[call.group]
                source, target = (_global(group.ranks, place) for place in (call.source, call.target))
                found[_Pair(group.name, group.description, source, target), operation((call,))] += times
    return found


def _under_way(rank: int, record: FlightRecord) -> Iterator[tuple[_Pair, str, IssuedCall]]:
    """The sends and receives that this rank has not completed, oldest first."""
    if not any(call.point_to_point for call in record.calls):
        return
    for entry in compress(count(), map(State.DONE.__ne__, record.state)):
        call = record.calls[record.call[entry]]
        if not call.point_to_point or call.op == END_OF_COALESCED or call.source is None or call.target is None:
            continue
        group = record.groups[call.group]
        source, target = (_global(group.ranks, place) for place in (call.source, call.target))
        issued = IssuedCall(
            rank=rank,
            seq=record.seq[entry],
            calls=(call,),
            group=group.name,
            stack=users_stack(record, record.stack[entry]),
            done=False,
            started=record.state[entry] is not State.SCHEDULED,
            created_ns=record.created_ns[entry],
            seconds=age(record, record.created_ns[entry], call.timeout_ms),
        )
        yield _Pair(group.name, group.description, source, target), operation((call,)), issued


def _global(members: tuple[int, ...] | None, place: int) -> int:
    return members[place] if members is not None and place < len(members) else place
