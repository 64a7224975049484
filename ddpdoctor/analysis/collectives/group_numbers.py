"""The statuses of groups that a rank's dump does not tell the numbers of, by the dumps of other ranks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup

Table = frozenset[int]


def with_statuses(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records, with the number and status of every group of which ranks with as many groups tell the number.

    The table of statuses has the numbers of groups, but not their names. Only an entry links a name to a number, and a dump with
    `onlyActive` has no entries of a group that has completed all its calls. Ranks of one program create their groups in the same
    order. So where all ranks with the same set of numbers agree on the number of a name, every one of them gets it.
    """
    if not any(entry.value.statuses for entry in records):
        return records
    numbers: dict[Table, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in records:
        for group in entry.value.groups:
            if group.number is not None:
                numbers[_table(entry.value)][group.name].add(group.number)
    agreed = {
        table: {name: next(iter(told)) for name, told in names.items()}
        for table, names in numbers.items()
        if all(len(told) == 1 for told in names.values())
    }
    entries = (
        Entry(entry.rank, entry.host, _completed(entry.value, agreed.get(_table(entry.value), {}))) for entry in records
    )
    return PerRank(tuple(entries), launched=records.launched)


def _table(record: FlightRecord) -> Table:
    known = {group.number for group in record.groups if group.number is not None}
    return frozenset(known | {row.number for row in record.statuses})


def _completed(record: FlightRecord, numbers: dict[str, int]) -> FlightRecord:
    rows = {row.number: row for row in record.statuses}

    def completed(group: ProcessGroup) -> ProcessGroup:
        row = rows.get(numbers.get(group.name, -1)) if group.number is None else None
        if row is None:
            return group
        return replace(group, number=row.number, last_enqueued=row.last_enqueued, last_completed=row.last_completed)

    return replace(record, groups=tuple(map(completed, record.groups))) if rows else record
