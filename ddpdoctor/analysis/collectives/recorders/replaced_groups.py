"""The process groups that a program destroyed and made anew: what ranks called in the older ones is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import compress

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup

Name = tuple[str, str]  # with the backend in front
Columns = tuple[tuple[Call, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def without_replaced(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records without the groups whose names later groups have taken over, and without what was called in them.

    torch counts the names of groups anew after `destroy_process_group`, and the numbers of their calls, while the ring buffer
    keeps what was called before. Only the number of a group among those of its rank tells the older one from the newer.
    """
    if not any(_named_twice(entry.value) for entry in records):
        return records
    newest = _newest_on_all_ranks(records)
    shared: dict[Columns, Columns] = {}  # ranks that did the same keep sharing what they called
    entries = (
        Entry(entry.rank, entry.host, without_groups(entry.value, older, shared))
        if (older := {*_replaced(entry.value, newest)})
        else entry
        for entry in records
    )
    return PerRank(tuple(entries), launched=records.launched)


def _name(group: ProcessGroup) -> Name:
    return group.backend, group.name


def _named_twice(record: FlightRecord) -> bool:
    return len({_name(group) for group in record.groups}) < len(record.groups)


def _newest_on_all_ranks(records: PerRank[FlightRecord]) -> dict[Name, int]:
    """The number of the newest group of each name, where the ranks that used several of a name number them alike."""
    numbers: dict[Name, set[int]] = defaultdict(set)
    most: dict[Name, int] = defaultdict(int)
    for entry in records:
        own: dict[Name, set[int]] = defaultdict(set)
        for group in entry.value.groups:
            if group.number is not None:
                own[_name(group)].add(group.number)
        for name, found in own.items():
            numbers[name] |= found
            most[name] = max(most[name], len(found))
    return {name: max(found) for name, found in numbers.items() if 1 < len(found) == most[name]}


def _replaced(record: FlightRecord, newest: dict[Name, int]) -> Iterator[int]:
    """The positions of the older groups of this rank."""
    own: dict[Name, int] = {}
    for group in record.groups:
        if group.number is not None:
            own[_name(group)] = max(group.number, own.get(_name(group), 0))
    for position, group in enumerate(record.groups):
        if group.number is not None and group.number < newest.get(_name(group), own[_name(group)]):
            yield position


def without_groups(record: FlightRecord, left_out: Collection[int], shared: dict[Columns, Columns]) -> FlightRecord:
    """The record without the groups at these positions and what was called in them; equal columns are taken from `shared`."""
    groups = {old: new for new, old in enumerate(place for place in range(len(record.groups)) if place not in left_out)}
    used = [number for number, call in enumerate(record.calls) if call.group in groups]
    numbers = {old: new for new, old in enumerate(used)}
    kept = [call in numbers for call in record.call]
    columns = (
        tuple(replace(record.calls[number], group=groups[record.calls[number].group]) for number in used),
        tuple(numbers[call] for call in compress(record.call, kept)),
        tuple(compress(record.seq, kept)),
        tuple(compress(record.stack, kept)),
    )
    calls, call, seq, stack = shared.setdefault(columns, columns)
    return replace(
        record,
        groups=tuple(record.groups[place] for place in groups),
        calls=calls,
        call=call,
        seq=seq,
        stack=stack,
        state=tuple(compress(record.state, kept)),
        created_ns=tuple(compress(record.created_ns, kept)),
        completed_ns=tuple(compress(record.completed_ns, kept)),
    )
