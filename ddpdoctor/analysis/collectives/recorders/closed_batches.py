"""The sends and receives of batches that are complete, in dumps that have dropped the entry that closed the batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ddpdoctor.analysis.collectives.recorders.call_sequences import END_OF_COALESCED
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup, State


def with_closed_batches(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records, where sends and receives of a batch without its closing entry are done.

    Entries of a batch have no state of their own; that of the batch is in the entry that closes it. A dump with `onlyActive` has
    dropped it once the batch is complete. Any rank can show that a group is used in batches: in the dump
    of a rank whose batches are complete, they look like sends of their own.
    """
    labels = {label for entry in records for label in _batched(entry.value)}
    if not labels:
        return records
    entries = (Entry(entry.rank, entry.host, _with_states(entry.value, labels)) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def label_of(group: ProcessGroup) -> str:
    """What groups with the same part in the job have in common.

    The description; where there is none, the number among the groups of the rank: ranks make their groups in one order.
    """
    return group.description or (group.name if group.number is None else f"number {group.number}")


def only_active(record: FlightRecord) -> bool:
    """Whether the dump has dropped what is complete: it shows no collective and no batch that is."""
    with_state = [not call.point_to_point or call.op == END_OF_COALESCED for call in record.calls]
    return not any(
        state is State.DONE and with_state[call] for call, state in zip(record.call, record.state, strict=True)
    )


def _batched(record: FlightRecord) -> set[str]:
    """The labels of the groups in which this rank sends and receives in batches."""
    calls = [number for number, call in enumerate(record.calls) if call.point_to_point]
    if not calls:
        return set()
    closing = {call.group for call in record.calls if call.point_to_point and call.op == END_OF_COALESCED}
    if len(closing) < len({record.calls[number].group for number in calls}):
        known = {*calls}
        times = Counter(
            (record.calls[call].group, seq) for call, seq in zip(record.call, record.seq, strict=True) if call in known
        )
        closing |= {group for (group, _), count in times.items() if count > 1}
    return {label_of(record.groups[group]) for group in closing}


def _with_states(record: FlightRecord, labels: set[str]) -> FlightRecord:
    calls = {
        number
        for number, call in enumerate(record.calls)
        if call.point_to_point and label_of(record.groups[call.group]) in labels
    }
    if not calls or not only_active(record):
        return record
    places = [place for place, call in enumerate(record.call) if call in calls]
    keys = {place: (record.calls[record.call[place]].group, record.seq[place]) for place in places}
    closed = {keys[place] for place in places if record.calls[record.call[place]].op == END_OF_COALESCED}
    # behind the last entry of all the host may not have come to close the batch: then the table of groups does not count it
    last = keys.get(len(record) - 1)
    enqueued = record.groups[last[0]].last_enqueued if last is not None else None
    open_ = last if last is not None and enqueued not in {None, last[1]} else None
    dropped = [
        place
        for place in places
        if keys[place] not in closed and keys[place] != open_ and record.state[place] is not State.DONE
    ]
    if not dropped:
        return record
    states = [*record.state]
    for place in dropped:
        states[place] = State.DONE
    return replace(record, state=tuple(states))
