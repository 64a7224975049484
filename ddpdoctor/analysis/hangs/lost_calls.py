"""Which ring buffers have lost calls that were outstanding: what such a rank waits for may be older than all it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress, count, islice

from ddpdoctor.analysis.collectives.recorders.closed_batches import only_active
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup, State


def not_kept(records: Mapping[int, FlightRecord]) -> Iterator[int]:
    """The ranks whose ring buffer has lost calls that were outstanding."""
    # dumps of one job are of one kind; those of active entries alone have a table of groups, and differ in length
    tables = any(group.last_enqueued is not None for record in records.values() for group in record.groups)
    lengths = {len(record) for record in records.values()}
    longest = max(lengths, default=0)
    whole = not all(map(only_active, records.values())) or (not tables and len(lengths) == 1)
    dropped = without_completed_alone(records)
    return (
        rank
        for rank, record in records.items()
        if rank not in dropped and _lost_outstanding(record, whole=whole, full=len(record) == longest)
    )


def _lost_outstanding(record: FlightRecord, *, whole: bool, full: bool) -> bool:
    """Whether the ring buffer held fewer calls than were outstanding: its oldest one is, and those before it are lost.

    Or its oldest outstanding call of a group is not the one after the last that was completed, by the dump's table of groups.
    A dump of active entries alone, not `whole`, begins with an outstanding one, and has lost nothing by that. `full` says that no
    other rank's ring holds more.
    """
    if not record.lost or not record.state:
        return False
    if whole and record.state[0] is not State.DONE:
        return True
    kinds = {(call.group, call.point_to_point) for call in record.calls}
    oldest: dict[int, int] = {}
    for entry in compress(count(), map(State.DONE.__ne__, record.state)):
        oldest.setdefault(record.calls[record.call[entry]].group, entry)
    return any(
        group.last_enqueued is not None
        and group.last_enqueued > (group.last_completed or 0)
        and not _follows(record, number, oldest.get(number), group)
        for number, group in enumerate(record.groups)
        if not {(number, False), (number, True)} <= kinds  # of both, the table counts the last one
        and (full or (number, True) not in kinds)  # sends and receives end in any order
    )


def _follows(record: FlightRecord, number: int, oldest: int | None, group: ProcessGroup) -> bool:
    """Whether the oldest outstanding call of a group, else what comes next, is the one after a call that is complete.

    By the dump's table of groups, or by the collective before it: the watchdog that fills the table may lag behind. Of sends and
    receives, which end in any order, one that is complete tells of no other. What has a number above that of all lost calls was
    not lost: the dump has dropped it because it was complete.
    """
    seq, end = (record.seq[oldest], oldest) if oldest is not None else ((group.last_enqueued or 0) + 1, len(record))
    completed = group.last_completed or 0
    if seq <= completed + 1 or completed >= record.lost:
        return True
    calls = ((entry, record.calls[record.call[entry]]) for entry in range(end - 1, -1, -1))
    before = ((entry, call) for entry, call in calls if call.group == number)
    return any(record.seq[entry] == seq - 1 and not call.point_to_point for entry, call in islice(before, 1))


def without_completed_alone(records: Mapping[int, FlightRecord]) -> frozenset[int]:
    """The ranks whose dumps lack nothing but what is complete: all dumps are of active entries alone, and others hold more.

    Rings that hold nothing but what is outstanding look like such dumps: they are all full, and so have one length, or two.
    """
    lengths = {rank: len(record) for rank, record in records.items()}
    longest = max(lengths.values(), default=0)
    if len({*lengths.values()}) <= 2 or not all(map(only_active, records.values())):
        return frozenset()
    return frozenset(rank for rank, length in lengths.items() if length < longest)
