"""Dumps of a run before this one: a job that was started again writes its dumps over the older ones, rank by rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, FlightRecord, State

CLOCKS_SECONDS = 60.0  # by which the clocks of two hosts may differ
MOST_ASKED = 64  # of the ranks of this run


def without_earlier_runs(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records without those of an earlier run, which a rank left that made no dump in this one.

    They tell that a collective was completed that others of the group enqueued only after that dump was made, or are of a rank
    that this run does not have.
    """
    ends = {entry.rank: entry.value.created_ns[-1] / 1e9 for entry in records if len(entry.value)}
    last = max(ends.values(), default=0.0)
    older = {rank for rank, end in ends.items() if end + CLOCKS_SECONDS < last}
    if not older or 2 * len(older) >= len(ends):
        return records
    others = [entry.value for entry in records if entry.rank in ends.keys() - older]
    transfers = {name for entry in records for name in _with_transfers(entry.value)}
    of_this_run = [ranks for one in islice(others, MOST_ASKED) if (ranks := _all_ranks(one)) is not None]
    earlier = {
        entry.rank
        for entry in records
        if entry.rank in older
        and (
            (of_this_run and not any(entry.rank in ranks for ranks in of_this_run))
            or _contradicts(entry.value, islice(others, MOST_ASKED), transfers)
        )
    }
    kept = tuple(entry for entry in records if entry.rank not in earlier)
    return PerRank(kept, launched=records.launched) if earlier else records


def _all_ranks(record: FlightRecord) -> frozenset[int] | None:
    """The members of the default group, where the dump tells them."""
    members = (group.ranks for group in record.groups if group.description == DEFAULT_GROUP)
    return next((frozenset(ranks) for ranks in members if ranks is not None), None)


def _contradicts(record: FlightRecord, others: Iterable[FlightRecord], transfers: set[str]) -> bool:
    completed, made = dict(_completed(record, transfers)), _made_at(record) + CLOCKS_SECONDS
    return any(
        completed.get(name, 0) >= seq and created > made
        for other in others
        for name, seq, created in _collectives(other, completed)
    )


def _made_at(record: FlightRecord) -> float:
    """When the dump was made at the latest: a call does not live much longer than its timeout."""
    timeout = record.calls[record.call[-1]].timeout_ms
    by_calls = record.created_ns[-1] / 1e9 + 2 * timeout / 1000 if timeout is not None else None
    return min(moment for moment in (record.taken_at, by_calls, float("inf")) if moment is not None)


def _with_transfers(record: FlightRecord) -> Iterator[str]:
    yield from {record.groups[call.group].name for call in record.calls if call.point_to_point}


def _completed(record: FlightRecord, transfers: set[str]) -> Iterator[tuple[str, int]]:
    """The number of the last collective that the rank completed in each group, by its table of groups, else by its entries.

    The table counts sends and receives too.
    """
    for group in record.groups:
        if group.last_completed is not None and group.name not in transfers:
            yield group.name, group.last_completed
    for entry, number in enumerate(record.call):
        call = record.calls[number]
        if record.state[entry] is State.DONE and not call.point_to_point:
            yield record.groups[call.group].name, record.seq[entry]


def _collectives(record: FlightRecord, groups: Mapping[str, int]) -> Iterator[tuple[str, int, float]]:
    """The collectives that the rank enqueued in these groups: the group, the number, and when."""
    names = {
        number: name
        for number, call in enumerate(record.calls)
        if not call.point_to_point and (name := record.groups[call.group].name) in groups
    }
    for entry, number in enumerate(record.call):
        if number in names:
            yield names[number], record.seq[entry], record.created_ns[entry] / 1e9
