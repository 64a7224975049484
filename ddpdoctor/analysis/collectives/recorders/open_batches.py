"""Batches of calls that a host was issuing when its dump was made: none of them has been given to the device."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from ddpdoctor.analysis.collectives.recorders.call_sequences import END_OF_COALESCED, MOVING_SECONDS
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord


def without_open_batches(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records without the calls of a batch that the host of a rank had begun to issue.

    A rank that has stopped there for long has called nothing that its peers wait in. Where most ranks stand so it is no rank's
    own doing, and their dumps stay as they are.
    """
    open_ = {entry.rank: calls for entry in records if (calls := _open(entry.value))}
    old = [entry.rank for entry in records if entry.rank in open_ and not _is_young(entry.value)]
    if 2 * len(old) > len(records.ranks):
        open_ = {rank: calls for rank, calls in open_.items() if rank not in old}
    if not open_:
        return records
    entries = (Entry(entry.rank, entry.host, _without_last(entry.value, open_.get(entry.rank, 0))) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def _open(record: FlightRecord) -> int:
    """How many calls at the end of this record are of a batch that no entry closes, as one closes all others of such calls."""
    closing = {(call.group, call.point_to_point) for call in record.calls if call.op == END_OF_COALESCED}
    if not closing or not record.call:
        return 0
    kinds = [(call.group, call.point_to_point) for call in record.calls]
    kind, seq = kinds[record.call[-1]], record.seq[-1]
    if kind not in closing:
        return 0
    entries = zip(reversed(record.call), reversed(record.seq), strict=True)
    batch = [call for call, number in takewhile(lambda one: (kinds[one[0]], one[1]) == (kind, seq), entries)]
    if any(record.calls[call].op == END_OF_COALESCED for call in batch):
        return 0
    before = [
        (call, number)
        for call, number in zip(record.call[: -len(batch)], record.seq, strict=False)
        if kinds[call] == kind and number != seq
    ]
    closed = {number for call, number in before if record.calls[call].op == END_OF_COALESCED}
    known = {call for call, _ in before}
    alone = {call for call, number in before if number not in closed}
    return len(batch) if known.issuperset(batch) and alone.isdisjoint(batch) else 0


def _is_young(record: FlightRecord) -> bool:
    """Whether the last call was made as shortly before the dump as in a healthy job."""
    return record.taken_at is not None and 0 <= record.taken_at - record.created_ns[-1] / 1e9 < MOVING_SECONDS


def _without_last(record: FlightRecord, count: int) -> FlightRecord:
    if not count:
        return record
    return replace(
        record,
        call=record.call[:-count],
        seq=record.seq[:-count],
        stack=record.stack[:-count],
        state=record.state[:-count],
        created_ns=record.created_ns[:-count],
        completed_ns=record.completed_ns[:-count],
    )
