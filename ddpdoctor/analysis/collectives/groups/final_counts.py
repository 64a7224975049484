"""How many collectives of a group each rank had called when all of them had ended without an error."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline
from ddpdoctor.evidence.recorder import FlightRecord


def final_counts(group: GroupTimeline, timeline: Timeline, finished: AbstractSet[int]) -> Mapping[int, int]:
    """By rank, the collectives of the group that it called; empty where a member is not among `finished` or did not count all.

    Entries are counted, and their numbers are not: gloo's monitored barrier takes more numbers on rank 0 than on the others.
    A record without the recorder's table of groups holds the calls that the agent saw, and C++ may have made more. One whose
    time is known was asked for while the rank ran, during a stall, say: the rank may have called more since. What a rank keeps
    at its end has no time.
    """
    members = {*group.members}
    if len(members) < 2 or not members <= finished or members != {*group.recorded}:
        return {}
    counts = {rank: _count(timeline.call_index.records[rank], group.group_sequences.group.name) for rank in members}
    return (
        {rank: count for rank, count in sorted(counts.items()) if count is not None}
        if None not in counts.values()
        else {}
    )


def _count(record: FlightRecord, name: str) -> int | None:
    places = [place for place, group in enumerate(record.groups) if group.name == name]
    if len(places) != 1 or record.lost or record.taken_at is not None or record.groups[places[0]].last_enqueued is None:
        return None
    counted = [call.group == places[0] and not call.point_to_point for call in record.calls]
    return sum(counted[call] for call in record.call)
