"""The operations that ranks had enqueued and not completed when their dumps were made, and how far each rank had come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, count, islice

from ddpdoctor.analysis.collectives.call_sequences import (
    END_OF_COALESCED,
    MOVING_SECONDS,
    CallSequence,
    program_stack,
)
from ddpdoctor.analysis.collectives.closed_batches import label_of, only_active
from ddpdoctor.analysis.collectives.matching import operation
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline, age
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup, State

ROOTED = frozenset({"broadcast", "reduce", "scatter", "gather", "_broadcast_oop", "_reduce_oop"})
"""Operations that one rank may complete before the others take part."""

TRANSFERS = ("send", "recv")
Batch = tuple[int, str, int]  # a rank, the name of a group, and the number of the batch in it
WITH_ONE_COUNT = ("2.0", "2.1")  # versions in which one number counts all calls of a group


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
    def is_young(self) -> bool:
        """Whether a rank came to it as recently as in a healthy job."""
        return bool(self.ages) and min(self.ages) < MOVING_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedByPartner:
    """A send that a rank has not completed, and that its partner has received."""

    call: IssuedCall
    """The send, as the rank enqueued it."""
    name: str
    """As users read it: `the send from rank 0 to rank 1`."""
    partner: int
    """The rank that has received it."""
    completed: int
    """How many sends to this partner the rank has completed."""
    partner_completed: int
    """How many of these sends the partner has received."""


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

    doubtful: frozenset[Batch] = frozenset()
    """Batches with a half whose partner may not have come to it: ring buffers have lost what tells."""

    def oldest(self, rank: int) -> Operation | None:
        """What this rank has waited for the longest."""
        return self.of_rank[rank][0] if rank in self.of_rank else None

    @property
    def seconds(self) -> float | None:
        """The age of the oldest outstanding call, None where no dump shows when it was made."""
        return max((age for operation in self.operations for age in operation.ages), default=None)


def outstanding_of(timeline: Timeline) -> Outstanding:
    """What was outstanding on every rank, sends and receives included."""
    transfers = _transfers_of(timeline)
    between, doubtful = _sends_and_receives(transfers, timeline.call_index.records)
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
        not_kept=tuple(sorted(_not_kept(timeline.call_index.records))),
        ended_by_partners=tuple(_ended_by_partners(timeline, transfers)),
        uneven=frozenset(_uneven(transfers)),
        doubtful=doubtful,
    )


def _not_kept(records: Mapping[int, FlightRecord]) -> Iterator[int]:
    # dumps of one job are of one kind; those of active entries alone have a table of groups, and differ in length
    tables = any(group.last_enqueued is not None for record in records.values() for group in record.groups)
    lengths = {len(record) for record in records.values()}
    longest = max(lengths, default=0)
    whole = not all(map(only_active, records.values())) or (not tables and len(lengths) == 1)
    dropped = without_completed_alone(records)
    return (
        rank
        for rank, record in records.items()
        if rank not in dropped and _lost_outstanding(record, whole=whole, full=len(record) == longest)
    )


def _lost_outstanding(record: FlightRecord, *, whole: bool, full: bool) -> bool:
    """Whether the ring buffer held fewer calls than were outstanding: its oldest one is, and those before it are lost.

    Or its oldest outstanding call of a group is not the one after the last that was completed, by the dump's table of groups.
    A dump of active entries alone, not `whole`, begins with an outstanding one, and has lost nothing by that. `full` says that no
    other rank's ring holds more.
    """
    if not record.lost or not record.state:
        return False
    if whole and record.state[0] is not State.DONE:
        return True
    kinds = {(call.group, call.point_to_point) for call in record.calls}
    oldest: dict[int, int] = {}
    for entry in compress(count(), map(State.DONE.__ne__, record.state)):
        oldest.setdefault(record.calls[record.call[entry]].group, entry)
    return any(
        group.last_enqueued is not None
        and group.last_enqueued > (group.last_completed or 0)
        and not _follows(record, number, oldest.get(number), group)
        for number, group in enumerate(record.groups)
        if not {(number, False), (number, True)} <= kinds  # of both, the table counts the last one
        and (full or (number, True) not in kinds)  # sends and receives end in any order
    )


def _follows(record: FlightRecord, number: int, oldest: int | None, group: ProcessGroup) -> bool:
    """Whether the oldest outstanding call of a group, else what comes next, is the one after a call that is complete.

    By the dump's table of groups, or by the collective before it: the watchdog that fills the table may lag behind. Of sends and
    receives, which end in any order, one that is complete tells of no other.
    """
    seq, end = (record.seq[oldest], oldest) if oldest is not None else ((group.last_enqueued or 0) + 1, len(record))
    if seq <= (group.last_completed or 0) + 1:
        return True
    calls = ((entry, record.calls[record.call[entry]]) for entry in range(end - 1, -1, -1))
    before = ((entry, call) for entry, call in calls if call.group == number)
    return any(record.seq[entry] == seq - 1 and not call.point_to_point for entry, call in islice(before, 1))


def without_completed_alone(records: Mapping[int, FlightRecord]) -> frozenset[int]:
    """The ranks whose dumps lack nothing but what is complete: all dumps are of active entries alone, and others hold more.

    Rings that hold nothing but what is outstanding look like such dumps: they are all full, and so have one length, or two.
    """
    lengths = {rank: len(record) for rank, record in records.items()}
    longest = max(lengths.values(), default=0)
    if len({*lengths.values()}) <= 2 or not all(map(only_active, records.values())):
        return frozenset()
    return frozenset(rank for rank, length in lengths.items() if length < longest)


def completed_by(
    timeline: Timeline, group: GroupTimeline, *, transfers: bool, dropped: frozenset[int] = frozenset()
) -> dict[int, int]:
    """The number of the last collective of the group that each rank has completed, where its dump shows it.

    With `transfers`, ranks also send and receive in the group, and the dumps' tables of groups may count these. Nothing where
    the numbers themselves count them. The dumps of `dropped` lack nothing but what is complete: with them, all calls before the
    oldest outstanding one are, also where the watchdog that fills the table has not noted it yet.
    """
    if transfers and any(map(_counts_transfers, timeline.call_index.records.values())):
        return {}
    found = {}
    told = _by_status(timeline, group) if not transfers else {}
    for sequence in group.group_sequences.sequences:
        record = timeline.call_index.records[sequence.rank]
        last = _last_done(sequence, record.state)
        found[sequence.rank] = last if last is not None else told.get(sequence.rank)
    for rank in group.recorded:  # an `onlyActive` dump has no entries of a completed group
        if rank not in found:
            found[rank] = told.get(rank)
    for rank in group.open.keys() & dropped:
        found[rank] = max(found.get(rank) or 0, group.open[rank].seq - 1)
    return {rank: seq for rank, seq in found.items() if seq is not None}


def _counts_transfers(record: FlightRecord) -> bool:
    """Whether the numbers of its collectives count sends and receives, too: those of older dumps do, if the ring lost calls."""
    return record.version in WITH_ONE_COUNT and record.lost > 0


def _last_done(sequence: CallSequence, states: Sequence[State]) -> int | None:
    for place in range(len(sequence.entries) - 1, -1, -1):
        entry = sequence.entries[place]
        if entry >= 0 and states[entry] is State.DONE:
            return sequence.first + place
    return None


def _by_status(timeline: Timeline, group: GroupTimeline) -> dict[int, int]:
    """What the dumps' tables of groups say; nothing where one has completed a collective that the rank still waits in.

    Then it counts the sends and receives in the group. Where the rank has enqueued calls and completed none, it has no number.
    """
    wanted = group.group_sequences.group.name
    found = {
        rank: one.last_completed or 0
        for rank in group.recorded
        for one in timeline.call_index.records[rank].groups
        if one.name == wanted and (one.last_enqueued is not None or one.last_completed is not None)
    }
    return {} if any(seq >= group.open[rank].seq for rank, seq in found.items() if rank in group.open) else found


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


@dataclass(frozen=True, slots=True)
class _Pair:
    """The sends of one rank to another one in one group, with one tag."""

    group: str
    source: int
    target: int
    tag: int = 0

    def rank(self, op: str) -> int:
        """The rank that makes this half, `send` or `recv`."""
        return self.source if op == "send" else self.target


@dataclass(frozen=True, slots=True)
class _Half:
    """The oldest outstanding send, or receive, of a pair; `number` counts those of the pair on this rank from 0 on."""

    call: IssuedCall
    number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Transfers:
    """The sends and receives of all ranks: those `posted` and not completed, and how many each pair has `issued`.

    `kept` has for each rank the names of the groups of which its record holds all of them; `issued` counts in these.
    """

    posted: Mapping[tuple[_Pair, str], list[IssuedCall]]
    issued: Mapping[tuple[_Pair, str], int]
    kept: Mapping[int, Collection[str]]

    def completed(self, pair: _Pair, op: str) -> int | None:
        """How many of these one side has completed, None where the record does not hold all."""
        if pair.group not in self.kept.get(pair.rank(op), ()):
            return None
        return self.issued.get((pair, op), 0) - len(self.posted.get((pair, op), ()))


def _transfers_of(timeline: Timeline) -> _Transfers:
    posted: dict[tuple[_Pair, str], list[IssuedCall]] = defaultdict(list)
    for rank, record in timeline.call_index.records.items():
        for pair, op, call in _under_way(rank, record):
            if op in TRANSFERS:
                posted[pair, op].append(call)
    if not posted:
        return _Transfers(posted={}, issued={}, kept={})
    records = timeline.call_index.records
    kept = with_all_transfers(records)
    return _Transfers(posted=posted, issued=_counted(records, kept), kept=kept)


def _ended_by_partners(timeline: Timeline, transfers: _Transfers) -> Iterator[EndedByPartner]:
    found: dict[tuple[int, str, int], list[EndedByPartner | None]] = defaultdict(list)
    for (pair, op), calls in transfers.posted.items():
        other = "recv" if op == "send" else "send"
        mine, theirs = transfers.completed(pair, op), transfers.completed(pair, other)
        for place, call in enumerate(calls):
            ended = mine is not None and theirs is not None and mine + place < theirs
            one = EndedByPartner(
                call=call,
                name=_name_of(pair),
                partner=pair.rank(other),
                completed=mine or 0,
                partner_completed=theirs or 0,
            )
            batch = found[call.rank, pair.group, call.seq]
            if op == "send" or not ended:
                batch.append(one if ended else None)
    told = set()
    for batch in found.values():
        ended_all = [one for one in batch if one is not None]
        if not ended_all or len(ended_all) < len(batch):
            continue
        first = ended_all[0]
        if first.call.rank not in told and _is_oldest(first.call, timeline.call_index.records[first.call.rank]):
            told.add(first.call.rank)
            yield first


def _is_oldest(issued: IssuedCall, record: FlightRecord) -> bool:
    """Whether the rank has waited for nothing longer than for the batch of this call."""
    oldest = next(compress(count(), map(State.DONE.__ne__, record.state)), issued.entry)
    call = record.calls[record.call[oldest]]
    batch = call.point_to_point, record.groups[call.group].name, record.seq[oldest]
    return oldest == issued.entry or batch == (True, issued.group, issued.seq)


def _uneven(transfers: _Transfers) -> Iterator[tuple[str, tuple[int, ...]]]:
    for pair in {pair for pair, _ in transfers.posted}:
        if len({transfers.issued.get((pair, op)) for op in TRANSFERS}) > 1:
            yield pair.group, tuple(sorted((pair.source, pair.target)))


def _name_of(pair: _Pair) -> str:
    return f"the send from rank {pair.source} to rank {pair.target}{f' with tag {pair.tag}' if pair.tag else ''}"


def _sends_and_receives(
    transfers: _Transfers, records: Mapping[int, FlightRecord]
) -> tuple[list[Operation], frozenset[Batch]]:
    """What is waited in, and the batches of which it is open whether more is."""
    posted, issued, kept = transfers.posted, transfers.issued, transfers.kept
    in_batch = Counter((call.rank, call.group, call.seq) for calls in posted.values() for call in calls)
    found: list[tuple[Operation, Batch | None]] = []
    for pair in dict.fromkeys(pair for pair, _ in posted):
        for operation_ in _halves_met(pair, posted, issued, kept):
            calls = [*operation_.waiting.values()]
            batch = (calls[0].rank, calls[0].group, calls[0].seq) if len(calls) == 1 else None
            counted = {(pair, "send"), (pair, "recv")} <= issued.keys()
            found.append((operation_, None if batch is None or counted or in_batch[batch] < 2 else batch))
    explained = {
        (call.rank, call.group, call.seq)
        for operation_, batch in found
        if batch is None
        for call in operation_.waiting.values()
    }
    # of a batch that waits for one partner for certain, another one whose dump shows nothing outstanding has done its part
    dropped = {id(one): batch for one, batch in found if batch in explained and not one.without_dump}
    doubtful = (
        batch
        for one, batch in found
        if batch is not None and id(one) in dropped and one.absent and _is_behind(records[one.absent[0]], batch)
    )
    return [one for one, _ in found if id(one) not in dropped], frozenset(doubtful)


def _is_behind(record: FlightRecord, batch: Batch) -> bool:
    """Whether the last batch that this rank issued in the group has a lower number than that of its partner."""
    numbers = {
        n for n, call in enumerate(record.calls) if call.point_to_point and record.groups[call.group].name == batch[1]
    }
    last = next(
        (seq for seq, call in zip(reversed(record.seq), reversed(record.call), strict=True) if call in numbers), 0
    )
    return last < batch[2]


def _halves_met(
    pair: _Pair,
    posted: Mapping[tuple[_Pair, str], list[IssuedCall]],
    issued: Mapping[tuple[_Pair, str], int],
    kept: Mapping[int, Collection[str]],
) -> Iterator[Operation]:
    """What the two ranks wait in: the same transfer, or a later one of one rank where the other one has come less far."""
    halves = {
        op: _Half(calls[0], issued[pair, op] - len(calls) if (pair, op) in issued else None)
        for op in TRANSFERS
        if (calls := posted.get((pair, op)))
    }
    numbers = {op: half.number for op, half in halves.items()}
    send, receive = numbers.get("send"), numbers.get("recv")
    if send is not None and receive is not None and send != receive:
        # the partner has completed the earlier one, which ends on this rank when the rest of its batch does
        halves = {op: half for op, half in halves.items() if half.number == max(send, receive)}
    waiting = {half.call.rank: half.call for half in halves.values()}
    members = tuple(sorted((pair.source, pair.target)))
    lacking = []
    for op in TRANSFERS:
        if op in halves:
            continue
        (other,) = halves.values()
        known = issued.get((pair, op), 0) if pair.group in kept.get(pair.rank(op), ()) else None
        if known is None or other.number is None or known <= other.number:
            lacking.append(pair.rank(op))
        elif other.number < known - len(posted.get((pair, op), ())):
            return  # the partner has completed its half
    yield Operation(
        group=None,
        name=_name_of(pair),
        seq=next(iter(waiting.values())).seq,
        members=members,
        waiting=waiting,
        absent=tuple(rank for rank in lacking if rank in kept),
        without_dump=tuple(rank for rank in lacking if rank not in kept),
        link=pair.group,
    )


def _counted(records: Mapping[int, FlightRecord], kept: Mapping[int, Collection[str]]) -> dict[tuple[_Pair, str], int]:
    """How many sends and receives each pair of ranks has issued, in groups of which the record has kept all of them."""
    found: dict[tuple[_Pair, str], int] = defaultdict(int)
    for rank, record in records.items():
        if not kept[rank] or not any(call.point_to_point for call in record.calls):
            continue
        for number, times in Counter(record.call).items():
            call = record.calls[number]
            group = record.groups[call.group]
            if call.source is not None and call.target is not None and group.name in kept[rank]:
                source, target = (_global(group.ranks, place) for place in (call.source, call.target))
                found[_Pair(group.name, source, target, call.tag), operation((call,))] += times
    return found


def with_all_transfers(records: Mapping[int, FlightRecord]) -> dict[int, set[str]]:
    """For each rank the names of the groups of which its record holds all sends and receives since the start."""
    batched = {
        label_of(record.groups[call.group])
        for record in records.values()
        for call in record.calls
        if call.op == END_OF_COALESCED
    }
    return {rank: _with_all_transfers(record, batched) for rank, record in records.items()}


def _with_all_transfers(record: FlightRecord, batched: Collection[str]) -> set[str]:
    """The names of the groups of which the record holds all sends and receives since the start.

    A dump of active entries alone keeps those that were issued in batches: then their numbers in the group have no gap.
    `batched` are the labels of the groups that are used so on some rank.
    """
    if not record.lost:
        return {group.name for group in record.groups}
    numbers: dict[int, set[int]] = defaultdict(set)
    for number, seq in {*zip(record.call, record.seq, strict=True)}:
        if record.calls[number].point_to_point:
            numbers[record.calls[number].group].add(seq)
    used = ((record.groups[number], found) for number, found in numbers.items())
    return {group.name for group, found in used if label_of(group) in batched and found == {*range(1, len(found) + 1)}}


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
            entry=entry,
            seq=record.seq[entry],
            calls=(call,),
            group=group.name,
            program=program_stack(record, record.stack[entry]),
            done=False,
            started=record.state[entry] is not State.SCHEDULED,
            created_ns=record.created_ns[entry],
            seconds=age(record, record.created_ns[entry], call.timeout_ms),
        )
        yield _Pair(group.name, source, target, call.tag), operation((call,)), issued


def _global(members: tuple[int, ...] | None, place: int) -> int:
    return members[place] if members is not None and 0 <= place < len(members) else place
