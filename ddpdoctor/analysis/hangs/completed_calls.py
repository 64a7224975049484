"""The last collective that each rank has completed in a group, by its entries, else by its dump's table of groups."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.analysis.collectives.recorders.call_sequences import CallSequence
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline
from ddpdoctor.evidence.recorder import FlightRecord, State

WITH_ONE_COUNT = ("2.0", "2.1")  # versions in which one number counts all calls of a group


def completed_by(
    timeline: Timeline, group: GroupTimeline, *, transfers: bool, dropped: frozenset[int]
) -> dict[int, int]:
    """The number of the last collective of the group that each rank has completed, where its dump shows it.

    With `transfers`, ranks also send and receive in the group, and the dumps' tables of groups may count these. Nothing where
    the numbers themselves count them. The dumps of `dropped` lack nothing but what is complete: with them, all calls before the
    oldest outstanding one are, also where the watchdog that fills the table has not noted it yet.
    """
    if transfers and any(map(_counts_transfers, timeline.call_index.records.values())):
        return {}
    found = {}
    by_status = _by_status(timeline, group) if not transfers else {}
    for sequence in group.group_sequences.sequences:
        record = timeline.call_index.records[sequence.rank]
        last = _last_done(sequence, record.state)
        found[sequence.rank] = last if last is not None else by_status.get(sequence.rank)
    for rank in group.recorded:  # an `onlyActive` dump has no entries of a completed group
        if rank not in found:
            found[rank] = by_status.get(rank)
    for rank in group.open.keys() & dropped:
        found[rank] = max(found.get(rank) or 0, group.open[rank].seq - 1)
    return {rank: seq for rank, seq in found.items() if seq is not None}


def _counts_transfers(record: FlightRecord) -> bool:
    """Whether the numbers of its collectives count sends and receives, too: those of older dumps do, if the ring lost calls."""
    return record.version in WITH_ONE_COUNT and record.lost > 0


def _last_done(sequence: CallSequence, states: Sequence[State]) -> int | None:
    for place in range(len(sequence.entries) - 1, -1, -1):
        entry = sequence.entries[place]
        if entry >= 0 and states[entry] is State.DONE:
            return sequence.first + place
    return None


def _by_status(timeline: Timeline, group: GroupTimeline) -> dict[int, int]:
    """What the dumps' tables of groups say; nothing where one has completed a collective that the rank still waits in.

    Then it counts the sends and receives in the group. Where the rank has enqueued calls and completed none, it has no number.
    """
    wanted = group.group_sequences.group.name
    found = {
        rank: one.last_completed or 0
        for rank in group.recorded
        for one in timeline.call_index.records[rank].groups
        if one.name == wanted and (one.last_enqueued is not None or one.last_completed is not None)
    }
    return {} if any(seq >= group.open[rank].seq for rank, seq in found.items() if rank in group.open) else found
