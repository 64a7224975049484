"""Ranks that went on after their dumps were made, or recorded nothing: what such a dump lacks tells nothing of its rank."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.closed_batches import label_of, only_active
from ddpdoctor.analysis.collectives.recorders.matching import needs_all
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline, age
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.outstanding import Outstanding
from ddpdoctor.evidence.recorder import FlightRecord, State

QUEUED_SECONDS = 30.0  # a device gets to what was queued on it within less
WENT_ON_BY = 8  # calls that peers completed without a rank after its dump was made; a root alone is ahead by fewer
MOST_QUEUED = 256  # calls of a rank of which the last one that it completed is searched


def older_dumps(
    timeline: Timeline, outstanding: Outstanding, completed: Mapping[int, Mapping[int, int]]
) -> Iterator[int]:
    """The ranks that went on after their dumps were made.

    Their dumps are older than the last one, and all that they had enqueued was young or peers began to wait for them
    afterwards; or peers have completed with them what they had not enqueued. `completed` has by `id` of a group what
    `completed_by` tells of it.
    """
    records = timeline.call_index.records
    lacking = _first_waits(outstanding)
    last = _last_dump(timeline)
    for rank, record in records.items():
        taken = record.taken_at
        if taken is None or last <= taken + MOVING_SECONDS:
            continue
        if lacking.get(rank, 0) > taken * 1e9 or was_at_work(timeline, outstanding, rank):
            yield rank
    for group in timeline.groups:
        yield from _overtaken(group, completed.get(id(group), {}))


def on_their_way(timeline: Timeline, outstanding: Outstanding) -> Iterator[int]:
    """The ranks with the last dumps of the job that had enqueued a call shortly before and wait for nothing longer."""
    last = _last_dump(timeline)
    for rank, record in timeline.call_index.records.items():
        taken = record.taken_at
        if taken is not None and last <= taken + MOVING_SECONDS and was_at_work(timeline, outstanding, rank):
            yield rank


def _last_dump(timeline: Timeline) -> float:
    times = (record.taken_at for record in timeline.call_index.records.values())
    return max((taken for taken in times if taken is not None), default=0.0)


def behind_peers(timeline: Timeline) -> Iterator[int]:
    """The ranks that had not enqueued by their dumps what a peer has completed, and what ends only with all members.

    The job went on between the two dumps then.
    """
    for group in timeline.groups:
        reached = min((call.seq for call in group.last.values()), default=0)
        furthest = max((_completed_of_all(timeline, group, rank, reached) for rank in group.last), default=0)
        yield from (rank for rank, last in group.last.items() if last.seq < furthest)


def are_apart(timeline: Timeline, behind: Collection[int]) -> bool:
    """Whether the ranks that are not `behind` their peers are of different moments, too, or too few to tell it.

    They are where one has enqueued what another one of its group has not, or has completed what ends only with all members and
    another one waits in.
    """
    if 2 * len(behind) > len(timeline.call_index.records):
        return True
    for group in timeline.groups:
        ranks = [rank for rank in group.last if rank not in behind]
        if len({group.last[rank].seq for rank in ranks}) > 1:
            return True
        first = min((group.open[rank].seq for rank in ranks if rank in group.open), default=None)
        if first is not None and any(_completed_of_all(timeline, group, rank, first - 1) for rank in ranks):
            return True
    return False


def ended_on(timeline: Timeline, operation: Operation) -> list[int]:
    """The members on which this collective has ended, though it needs the data of all: then all have made it."""
    group = operation.group
    if group is None or group.mismatches or not all(needs_all(call.calls) for call in operation.waiting.values()):
        return []
    others = (rank for rank in group.last if rank not in operation.waiting)
    return [rank for rank in others if _completed_of_all(timeline, group, rank, operation.seq - 1)]


def _completed_of_all(timeline: Timeline, group: GroupTimeline, rank: int, seq: int) -> int:
    """The last call after number `seq` that this rank completed and that ends only with all members; 0 where it did not."""
    if only_active(timeline.call_index.records[rank]):
        return _dropped(timeline, group, rank, seq)
    last = group.last[rank].seq
    later = (timeline.issued(group, rank, one) for one in range(last, max(seq, last - MOST_QUEUED), -1))
    return next((call.seq for call in later if call is not None and call.done and needs_all(call.calls)), 0)


def _dropped(timeline: Timeline, group: GroupTimeline, rank: int, seq: int) -> int:
    """The same of a dump that has dropped what was completed: it is all before the oldest call in which the rank waits.

    What these calls were, the dumps of others tell that still hold them.
    """
    last = group.open[rank].seq - 1 if rank in group.open else 0
    for one in range(last, max(seq, last - MOST_QUEUED), -1):
        held = (timeline.issued(group, other, one) for other in group.last)
        call = next((call for call in held if call is not None), None)
        if call is not None and needs_all(call.calls):
            return one
    return 0


def recorded_nothing(timeline: Timeline) -> Iterator[int]:
    """The ranks whose dumps hold no entry, while peers completed collectives that end only with them: no recorder ran there."""
    records = timeline.call_index.records
    empty = {rank for rank, record in records.items() if not len(record)}
    if empty:
        for group in timeline.groups:
            if not empty.isdisjoint(group.members) and _ended_one(timeline, group):
                yield from empty.intersection(group.members)


def most_ranks_move(timeline: Timeline, outstanding: Outstanding) -> bool:
    """Whether most ranks completed calls shortly before their dumps in the groups whose calls wait: the job was on its way.

    On a device calls are queued: in a healthy job the oldest outstanding one may be seconds old, though not older than
    `QUEUED_SECONDS`. What moves in other groups, such as one for signs of life, excuses nothing.
    """
    if outstanding.seconds is None or outstanding.seconds > QUEUED_SECONDS:
        return False
    records = timeline.call_index.records.values()
    groups = {label_of(record.groups[number]) for record in records for number in _with_old_calls(record)}
    moved = [found for record in records if (found := _completes(record, groups)) is not None]
    return 2 * sum(moved) > len(moved)


def _with_old_calls(record: FlightRecord) -> set[int]:
    """The groups of this rank in which a call waits for longer than in a healthy job without queues."""
    waiting = [entry for entry, state in enumerate(record.state) if state is not State.DONE]
    return {
        record.calls[record.call[entry]].group
        for entry in waiting
        if not _is_young(record, record.created_ns[entry], record.call[entry])
    }


def _completes(record: FlightRecord, groups: Collection[str]) -> bool | None:
    """Whether the rank has just completed a call in each of these groups that it uses; None where it uses none of them."""
    last: dict[int, tuple[int, int]] = {}
    for entry, number in enumerate(record.call):
        group = record.calls[number].group
        if label_of(record.groups[group]) in groups:
            ended = record.completed_ns[entry] if record.completed_ns else 0
            last[group] = max(last.get(group, (0, number)), (ended, number))
    return all(_is_young(record, moment, number) for moment, number in last.values()) if last else None


def _is_young(record: FlightRecord, moment_ns: int, call: int) -> bool:
    """Whether this moment was shortly before the dump."""
    seconds = age(record, moment_ns, record.calls[call].timeout_ms)
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


def was_at_work(timeline: Timeline, outstanding: Outstanding, rank: int) -> bool:
    """Whether the rank was on its way when its dump was made: its oldest outstanding call, else its last one, is young."""
    record = timeline.call_index.records[rank]
    mine = outstanding.of_rank.get(rank, ())
    if not mine and not len(record):
        return False
    last = age(record, record.created_ns[-1], record.calls[record.call[-1]].timeout_ms) if not mine else None
    ages = [one.waiting[rank].seconds for one in mine] or [last]
    return all(seconds is not None and seconds < MOVING_SECONDS for seconds in ages)
