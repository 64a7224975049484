"""The sends and receives that ranks had enqueued and not completed when their dumps were made, matched with their partners'."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, count

from ddpdoctor.analysis.collectives.recorders.call_sequences import END_OF_COALESCED, program_stack
from ddpdoctor.analysis.collectives.recorders.closed_batches import label_of
from ddpdoctor.analysis.collectives.recorders.matching import operation
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline, age
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.evidence.recorder import FlightRecord, State

TRANSFERS = ("send", "recv")
Batch = tuple[int, str, int]  # a rank, the name of a group, and the number of the batch in it


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
class Transfers:
    """The sends and receives of all ranks, by pair of ranks and `send` or `recv`."""

    posted: Mapping[tuple[_Pair, str], list[IssuedCall]]
    """Those that were posted and not completed, the oldest first."""
    issued: Mapping[tuple[_Pair, str], int]
    """How many were issued, in the groups in `kept`."""
    kept: Mapping[int, Collection[str]]
    """For each rank the names of the groups of which its record holds all of them."""

    def completed(self, pair: _Pair, op: str) -> int | None:
        """How many of these one side has completed, None where the record does not hold all."""
        if pair.group not in self.kept.get(pair.rank(op), ()):
            return None
        return self.issued.get((pair, op), 0) - len(self.posted.get((pair, op), ()))


def transfers_of(timeline: Timeline) -> Transfers:
    """What all ranks have posted and not completed."""
    posted: dict[tuple[_Pair, str], list[IssuedCall]] = defaultdict(list)
    for rank, record in timeline.call_index.records.items():
        for pair, op, call in _under_way(rank, record):
            if op in TRANSFERS:
                posted[pair, op].append(call)
    if not posted:
        return Transfers(posted={}, issued={}, kept={})
    records = timeline.call_index.records
    kept = with_all_transfers(records)
    return Transfers(posted=posted, issued=_counted(records, kept), kept=kept)


def ended_by_partners(timeline: Timeline, transfers: Transfers) -> Iterator[EndedByPartner]:
    """For each rank the first send that its partner has received and that did not end for the rank."""
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
    reported = set()
    for batch in found.values():
        ended_all = [one for one in batch if one is not None]
        if not ended_all or len(ended_all) < len(batch):
            continue
        first = ended_all[0]
        if first.call.rank not in reported and _is_oldest(first.call, timeline.call_index.records[first.call.rank]):
            reported.add(first.call.rank)
            yield first


def _is_oldest(issued: IssuedCall, record: FlightRecord) -> bool:
    """Whether the rank has waited for nothing longer than for the batch of this call."""
    oldest = next(compress(count(), map(State.DONE.__ne__, record.state)), issued.entry)
    call = record.calls[record.call[oldest]]
    batch = call.point_to_point, record.groups[call.group].name, record.seq[oldest]
    return oldest == issued.entry or batch == (True, issued.group, issued.seq)


def uneven(transfers: Transfers) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The groups, by name, and pairs of ranks of which one has issued more sends or receives than the other."""
    for pair in {pair for pair, _ in transfers.posted}:
        if len({transfers.issued.get((pair, op)) for op in TRANSFERS}) > 1:
            yield pair.group, tuple(sorted((pair.source, pair.target)))


def _name_of(pair: _Pair) -> str:
    return f"the send from rank {pair.source} to rank {pair.target}{f' with tag {pair.tag}' if pair.tag else ''}"


def sends_and_receives(
    transfers: Transfers, records: Mapping[int, FlightRecord]
) -> tuple[list[Operation], Mapping[Batch, Collection[int]]]:
    """What is waited in, and the batches that may wait for further partners, with these."""
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
    doubtful: dict[Batch, set[int]] = defaultdict(set)
    for one, batch in found:
        if batch is not None and id(one) in dropped and one.absent and _is_behind(records[one.absent[0]], batch):
            doubtful[batch].add(one.absent[0])
    return [one for one, _ in found if id(one) not in dropped], doubtful


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
        assumed=len(halves) > 1 and None in numbers.values(),
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
