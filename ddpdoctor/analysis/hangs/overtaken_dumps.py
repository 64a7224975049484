"""Dumps that were made before peers enqueued what they have completed: the job went on after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.dump_times import last_event
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline, age
from ddpdoctor.evidence.recorder import FlightRecord


def overtaken_dumps(timeline: Timeline, completed: Mapping[int, Mapping[int, int]]) -> set[int]:
    """The ranks whose dumps are from before the last collective of which this is known.

    What these ranks had not completed they may have completed since. `completed` has by `id` of a group what `completed_by` tells
    of it.
    """
    moments = (
        moment for group in timeline.groups for moment in _made_later(timeline, group, completed.get(id(group), {}))
    )
    moved = max(moments, default=0.0)
    records = timeline.call_index.records
    return {rank for rank, record in records.items() if len(record) and _tells_until(record) < moved}


def _made_later(timeline: Timeline, group: GroupTimeline, completed: Mapping[int, int]) -> Iterator[float]:
    """When peers enqueued what they have completed, where this was after the dump of a rank that waits in it."""
    furthest = max(completed.values(), default=0)
    for rank, call in group.open.items():
        if call.seq > furthest or (call.seconds is not None and call.seconds < MOVING_SECONDS):
            continue
        until = _tells_until(timeline.call_index.records[rank])
        for peer in (peer for peer, seq in completed.items() if seq >= call.seq):
            made = _first_held(timeline, group, peer, call.seq)
            if made is not None and made.created_ns / 1e9 > until:
                yield made.created_ns / 1e9


def _first_held(timeline: Timeline, group: GroupTimeline, rank: int, seq: int) -> IssuedCall | None:
    """The first call from number `seq` on that the dump of this rank holds."""
    sequence = group.group_sequences.sequence(rank)
    return timeline.issued(group, rank, max(seq, sequence.first)) if sequence is not None else None


def _tells_until(record: FlightRecord) -> float:
    """Up to when a record tells what its rank did: to its dump, else, where nothing shows that moment, to its last event."""
    timeout = record.calls[record.call[-1]].timeout_ms
    if record.taken_at is not None and age(record, record.created_ns[-1], timeout) is not None:
        return record.taken_at
    return last_event(record) + MOVING_SECONDS
