"""The members of groups of which the recorder does not tell them, by what the agent wrote down in the ranks."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.recorder import FlightRecord


def with_members(records: PerRank[FlightRecord], calls: PerRank[CollectiveCalls] | None) -> PerRank[FlightRecord]:
    """The records, with the members of every group that a rank's agent told; gloo's recorder tells none."""
    told = {
        entry.rank: {one.group: one.ranks for one in entry.value.groups} for entry in calls or () if entry.value.groups
    }
    if not told:
        return records
    entries = (Entry(entry.rank, entry.host, _completed(entry.value, told.get(entry.rank, {}))) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def _completed(record: FlightRecord, members: dict[str, tuple[int, ...]]) -> FlightRecord:
    if all(group.ranks is not None or group.name not in members for group in record.groups):
        return record
    groups = (
        replace(group, ranks=members[group.name]) if group.ranks is None and group.name in members else group
        for group in record.groups
    )
    return replace(record, groups=tuple(groups))
