"""Ranks that went on after their dumps were made, or recorded nothing: what such a dump lacks tells nothing of its rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpdoctor.analysis.collectives.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.matching import needs_all
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, Timeline, age
from ddpdoctor.analysis.hangs.outstanding import Outstanding
from ddpdoctor.evidence.recorder import FlightRecord, State

WENT_ON_BY = 8  # calls that peers completed without a rank after its dump was made; a root alone is ahead by fewer


def older_dumps(
    timeline: Timeline, outstanding: Outstanding, completed: Mapping[int, Mapping[int, int]]
) -> Iterator[int]:
    """The ranks that went on after their dumps were made.

    Peers have completed with them what they had not enqueued, all that they had enqueued was young by their own clock, or
    peers began to wait for them after their dumps, and long before the last dump. `completed` has by `id` of a group what
    `completed_by` tells of it.
    """
    records = timeline.call_index.records
    lacking = _first_waits(outstanding)
    last = max((record.taken_at for record in records.values() if record.taken_at is not None), default=0.0)
    for rank, record in records.items():
        taken = record.taken_at
        before = taken is not None and last > taken + MOVING_SECONDS and lacking.get(rank, 0) > taken * 1e9
        if before or _moved(timeline, outstanding, rank):
            yield rank
    for group in timeline.groups:
        yield from _overtaken(group, completed.get(id(group), {}))


def recorded_nothing(timeline: Timeline) -> Iterator[int]:
    """The ranks whose dumps hold no entry, while peers completed collectives that end only with them: no recorder ran there."""
    records = timeline.call_index.records
    empty = {rank for rank, record in records.items() if not len(record)}
    if empty:
        for group in timeline.groups:
            if not empty.isdisjoint(group.members) and _ended_one(timeline, group):
                yield from empty.intersection(group.members)


def most_ranks_move(timeline: Timeline) -> bool:
    """Whether most ranks enqueued or completed a call shortly before their dumps: the job was on its way then.

    On a device calls are queued: in a healthy job the oldest outstanding one may be seconds old.
    """
    records = timeline.call_index.records.values()
    return 2 * sum(map(_has_just_moved, records)) > len(records)


def _has_just_moved(record: FlightRecord) -> bool:
    if not len(record):
        return False
    last = max(record.created_ns[-1], max(record.completed_ns, default=0))
    seconds = age(record, last, record.calls[record.call[-1]].timeout_ms)
    return seconds is not None and seconds < MOVING_SECONDS


def _overtaken(group: GroupTimeline, completed: Mapping[int, int]) -> Iterator[int]:
    furthest = max(completed.values(), default=0)
    for rank in group.last:
        if furthest >= max(group.reached(rank), completed.get(rank, 0)) + WENT_ON_BY:
            yield rank


def _ended_one(timeline: Timeline, group: GroupTimeline) -> bool:
    """Whether a rank has completed a call of the group that needs the data of every member."""
    for sequence in group.group_sequences.sequences:
        record = timeline.call_index.records[sequence.rank]
        done = {record.call[entry] for entry in sequence.entries if entry >= 0 and record.state[entry] is State.DONE}
        if any(needs_all((record.calls[number],)) for number in done):
            return True
    return False


def _first_waits(outstanding: Outstanding) -> dict[int, int]:
    """When the first peer began to wait for each rank that has not enqueued something, in nanoseconds since the epoch."""
    found: dict[int, int] = {}
    for operation in outstanding.operations:
        for rank in operation.absent:
            found[rank] = min(found.get(rank, operation.created_ns), operation.created_ns)
    return found


def _moved(timeline: Timeline, outstanding: Outstanding, rank: int) -> bool:
    """Whether the rank was on its way when its dump was made: its oldest outstanding call, else its last one, is young."""
    record = timeline.call_index.records[rank]
    mine = outstanding.of_rank.get(rank, ())
    if not mine and not len(record):
        return False
    last = age(record, record.created_ns[-1], record.calls[record.call[-1]].timeout_ms) if not mine else None
    ages = [one.waiting[rank].seconds for one in mine] or [last]
    return all(seconds is not None and seconds < MOVING_SECONDS for seconds in ages)
