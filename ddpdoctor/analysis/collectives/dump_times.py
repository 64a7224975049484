"""When the dumps of a job were made: by what their recorders noted then, where the times of the files cannot be true."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from statistics import median

from ddpdoctor.analysis.collectives.call_sequences import END_OF_COALESCED
from ddpdoctor.analysis.collectives.closed_batches import label_of
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, State

WRITTEN_SECONDS = 60.0  # from a dump to the time of its file: to write it, and for the clock of a file server
ENOUGH = 4  # one of so many ranks: a rank that died, or whose watchdog is stuck, tells its own moment alone


def with_times(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records with the times that their own entries tell, where files were copied since and have the time of the copy.

    That shows where the time of a file contradicts the dump in it. Where enough dumps tell when they were made, the others are
    taken to be of that moment, as far as they hold nothing that is later.
    """
    between = {
        label_of(entry.value.groups[call.group])
        for entry in records
        for call in entry.value.calls
        if call.point_to_point
    }
    batched = {
        label_of(entry.value.groups[call.group])
        for entry in records
        for call in entry.value.calls
        if call.op == END_OF_COALESCED
    }
    noted = {entry.rank: at for entry in records if (at := _noted_at(entry.value, between, batched)) is not None}
    copied = any(
        entry.rank in noted
        and entry.value.taken_at is not None
        and not -WRITTEN_SECONDS <= entry.value.taken_at - noted[entry.rank] <= WRITTEN_SECONDS
        for entry in records
    )
    if not copied or ENOUGH * len(noted) < sum(1 for entry in records if len(entry.value)):
        return records
    moment = median(noted.values())
    entries = (
        Entry(
            entry.rank, entry.host, _at(entry.value, noted.get(entry.rank), moment) if len(entry.value) else entry.value
        )
        for entry in records
    )
    return PerRank(tuple(entries), launched=records.launched)


def _noted_at(record: FlightRecord, between: Collection[str], batched: Collection[str]) -> float | None:
    """When the dump was made, as far as it tells that; at the earliest where the dump leaves out what had just ended.

    A watchdog looks ten times a second. Of a dump of active entries alone, what had ended and what the watchdog had not yet
    counted is in neither the table of groups nor the entries. Of groups with sends, `between`, the table may count these. In
    groups with `batched` calls the entry that closes a batch tells whether it has ended.
    """
    if record.noted_at is not None or not record.call or record.completed_ns:
        return record.noted_at
    oldest: dict[int, int] = {}
    for entry, state in enumerate(record.state):
        call = record.calls[record.call[entry]]
        tells = call.op == END_OF_COALESCED or label_of(record.groups[call.group]) not in batched
        if tells and state is not State.DONE:
            oldest.setdefault(call.group, record.seq[entry])
    for number, seq in oldest.items():
        group = record.groups[number]
        counted = group.last_completed is not None and group.last_enqueued is not None
        if (
            counted
            and label_of(group) not in between
            and (group.last_completed or 0) + 1 < seq <= (group.last_enqueued or 0)
        ):
            return _last(record)
    return None


def _last(record: FlightRecord) -> float:
    return max(record.created_ns[-1:] + record.completed_ns) / 1e9


def _at(record: FlightRecord, noted: float | None, moment: float) -> FlightRecord:
    if record.taken_at is None:
        return record
    return replace(record, taken_at=noted if noted is not None else max(moment, _last(record)))
