"""When the dumps of a job were made: by what their recorders noted then, where the times of the files cannot be true."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord

WRITTEN_SECONDS = 60.0  # from a dump to the time of its file: to write it, and for the clock of a file server
ENOUGH = 4  # one of so many ranks: a rank that died, or whose watchdog is stuck, tells its own moment alone


def with_times(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records with the times that their own entries tell, where files were copied since and have the time of the copy.

    That shows where the time of a file contradicts the dump in it. Where enough dumps show when they were made, the others are
    taken to be of that moment, as far as they hold nothing that is later.
    """
    noted = {entry.rank: entry.value.noted_at for entry in records if entry.value.noted_at is not None}
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


def last_event(record: FlightRecord) -> float:
    """When the last call was made that the record holds, or seen to end, in seconds since the epoch."""
    return max(record.created_ns[-1:] + record.completed_ns) / 1e9


def _at(record: FlightRecord, noted: float | None, moment: float) -> FlightRecord:
    if record.taken_at is None:
        return record
    return replace(record, taken_at=noted if noted is not None else max(moment, last_event(record)))
