"""The statuses of groups that a rank's dump does not tell the numbers of, by the dumps of other ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup


class Table(NamedTuple):
    """What must be equal on ranks whose numbers mean the same groups.

    A rank that has no part in a group, and one that has not used it yet, may have the same numbers for other groups.
    """

    numbers: frozenset[int]
    """The numbers of its groups, and those in its table of statuses."""
    descriptions: tuple[str, ...]
    """The descriptions of its groups, sorted."""


class Key(NamedTuple):
    """What tells a group of a rank from its others: its name, or its description."""

    name: str
    """The group's name, the same on all its ranks; empty where the description stands for it."""
    description: str = ""
    """A description that one group of the rank alone has; empty where the name stands for it."""


def with_statuses(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records, with the number and status of every group of which ranks with as many groups tell the number.

    The table of statuses has the numbers of groups, but not their names. Only an entry links a name to a number, and a dump with
    `onlyActive` has no entries of a group that has completed all its calls. Ranks of one program create their groups in the same
    order. So where all ranks with the same numbers, and descriptions, agree on the number of a name, or of a description that
    each of them has given to one group alone, every one of them gets it.
    """
    if not any(entry.value.statuses for entry in records):
        return records
    numbers: dict[Table, dict[Key, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in records:
        for group in entry.value.groups:
            if group.number is not None:
                for key in _keys(entry.value, group):
                    numbers[_table(entry.value)][key].add(group.number)
    agreed = {
        table: {key: next(iter(told)) for key, told in keys.items() if len(told) == 1}
        for table, keys in numbers.items()
        if all(len(told) == 1 for key, told in keys.items() if not key.description)
    }
    entries = (
        Entry(entry.rank, entry.host, _completed(entry.value, agreed.get(_table(entry.value), {}))) for entry in records
    )
    return PerRank(tuple(entries), launched=records.launched)


def _table(record: FlightRecord) -> Table:
    known = {group.number for group in record.groups if group.number is not None}
    return Table(
        numbers=frozenset(known | {row.number for row in record.statuses}),
        descriptions=tuple(sorted(group.description for group in record.groups)),
    )


def _keys(record: FlightRecord, group: ProcessGroup) -> Iterator[Key]:
    yield Key(group.name)
    if group.description and sum(one.description == group.description for one in record.groups) == 1:
        yield Key("", group.description)


def _completed(record: FlightRecord, numbers: dict[Key, int]) -> FlightRecord:
    rows = {row.number: row for row in record.statuses}

    def completed(group: ProcessGroup) -> ProcessGroup:
        told = (numbers[key] for key in _keys(record, group) if key in numbers)
        row = rows.get(next(told, -1)) if group.number is None else None
        if row is None:
            return group
        return replace(group, number=row.number, last_enqueued=row.last_enqueued, last_completed=row.last_completed)

    return replace(record, groups=tuple(map(completed, record.groups))) if rows else record
