"""The statuses of groups that a rank's dump does not tell the numbers of, by the dumps of other ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup


class GroupTable(NamedTuple):
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


class Shape(NamedTuple):
    """What groups with one number have in common on all ranks whose numbers mean the same groups."""

    description: str
    """What the program called the group."""
    size: int
    """The number of its members."""
    distance: int
    """How far apart its first two members are."""


def with_statuses(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records, with the number and status of every group of which a dump tells the number, or ranks with as many groups.

    The table of statuses has the numbers of groups, but not their names. Only an entry links a name to a number, and a dump with
    `onlyActive` has no entries of a group that has completed all its calls. Ranks of one program create their groups in the same
    order: names that are numbers tell it in one dump alone. Of other names, where all ranks with the same numbers, and
    descriptions, agree on the number of a name, or of a description that each of them has given to one group alone, every one
    of them gets it. What is left is inferred from size and distance: a rank has as many groups of each as others with the same
    numbers.
    """
    if not any(entry.value.statuses for entry in records):
        return records
    ordered = (Entry(entry.rank, entry.host, _completed(entry.value, _by_creation(entry.value))) for entry in records)
    records = PerRank(tuple(ordered), launched=records.launched)
    numbers: dict[GroupTable, dict[Key, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in records:
        for group in entry.value.groups:
            if group.number is not None:
                for key in _keys(entry.value, group):
                    numbers[_table(entry.value)][key].add(group.number)
    agreed = {
        table: {key: next(iter(seen)) for key, seen in keys.items() if len(seen) == 1}
        for table, keys in numbers.items()
        if all(len(seen) == 1 for key, seen in keys.items() if not key.description)
    }
    named = tuple(
        Entry(entry.rank, entry.host, _completed(entry.value, _told(entry.value, agreed.get(_table(entry.value), {}))))
        for entry in records
    )
    shapes = _shapes(entry.value for entry in named)
    entries = (
        Entry(
            entry.rank, entry.host, _completed(entry.value, _by_shape(entry.value, shapes.get(_table(entry.value), {})))
        )
        for entry in named
    )
    return PerRank(tuple(entries), launched=records.launched)


def _by_creation(record: FlightRecord) -> dict[str, int]:
    """The numbers of groups by name, where names are numbers: both are given in the order of creation.

    A table has a row for each group that was used. Where the dump lists others, too, it lists all, which are numbered from 0 on.
    """
    names = sorted((group.name for group in record.groups), key=_order)
    known = {group.name: group.number for group in record.groups if group.number is not None}
    rows = sorted({*known.values(), *(row.number for row in record.statuses)})
    numbers = rows if len(rows) == len(names) else [*range(len(names))] if any(known.values()) else []
    found = dict(zip(names, numbers, strict=False))
    return found if all(map(str.isdecimal, names)) and found.items() >= known.items() else {}


def _table(record: FlightRecord) -> GroupTable:
    known = {group.number for group in record.groups if group.number is not None}
    return GroupTable(
        numbers=frozenset(known | {row.number for row in record.statuses}),
        descriptions=tuple(sorted(group.description for group in record.groups)),
    )


def _keys(record: FlightRecord, group: ProcessGroup) -> Iterator[Key]:
    yield Key(group.name)
    if group.description and sum(one.description == group.description for one in record.groups) == 1:
        yield Key("", group.description)


def _told(record: FlightRecord, numbers: Mapping[Key, int]) -> dict[str, int]:
    """The numbers of groups by name, by what other ranks tell of their names or descriptions."""
    found = ((group.name, numbers[key]) for group in record.groups for key in _keys(record, group) if key in numbers)
    return dict(reversed([*found]))


def _shapes(records: Iterable[FlightRecord]) -> dict[GroupTable, dict[int, Shape]]:
    """The shape of the group with each number, where all ranks with the same numbers that tell it agree."""
    found: dict[GroupTable, dict[int, set[Shape]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        for group in record.groups:
            if group.number is not None and group.ranks is not None:
                found[_table(record)][group.number].add(_shape(group.description, group.ranks))
    return {
        table: {number: next(iter(seen)) for number, seen in shapes.items() if len(seen) == 1}
        for table, shapes in found.items()
    }


def _by_shape(record: FlightRecord, shapes: Mapping[int, Shape]) -> dict[str, int]:
    """The numbers of groups by name: of one shape, as many groups lack a number as there are numbers left.

    Names that are numbers are given in the order of creation, too; of other names, only one can be told.
    """
    lacking: dict[Shape, list[str]] = defaultdict(list)
    for group in record.groups:
        if group.number is None and group.ranks is not None:
            lacking[_shape(group.description, group.ranks)].append(group.name)
    left: dict[Shape, list[int]] = defaultdict(list)
    for number in {row.number for row in record.statuses} - {group.number for group in record.groups}:
        if number in shapes:
            left[shapes[number]].append(number)
    found: dict[str, int] = {}
    for shape, names in lacking.items():
        if len(left[shape]) == len(names) and (len(names) == 1 or all(map(str.isdecimal, names))):
            found.update(zip(sorted(names, key=_order), sorted(left[shape]), strict=True))
    return found


def _shape(description: str, ranks: tuple[int, ...]) -> Shape:
    return Shape(description, len(ranks), ranks[1] - ranks[0] if len(ranks) > 1 else 0)


def _order(name: str) -> tuple[int, str]:
    return len(name), name


def _completed(record: FlightRecord, numbers: Mapping[str, int]) -> FlightRecord:
    rows = {row.number: row for row in record.statuses}

    def completed(group: ProcessGroup) -> ProcessGroup:
        row = rows.get(numbers[group.name]) if group.number is None and group.name in numbers else None
        if row is None:
            return group
        return replace(group, number=row.number, last_enqueued=row.last_enqueued, last_completed=row.last_completed)

    return replace(record, groups=tuple(map(completed, record.groups))) if rows else record
