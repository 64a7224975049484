"""The members of groups of which the recorder does not tell them: by the agents of ranks, or by the ranks that list the group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup

DEFAULT_GROUP = "default_pg"


def with_members(records: PerRank[FlightRecord], calls: PerRank[CollectiveCalls] | None) -> PerRank[FlightRecord]:
    """The records, with the members of every group that a rank's agent told; gloo's recorder tells none."""
    told = {
        entry.rank: {one.group: one.ranks for one in entry.value.groups} for entry in calls or () if entry.value.groups
    }
    if not told:
        return records
    entries = (Entry(entry.rank, entry.host, _completed(entry.value, told.get(entry.rank, {}))) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def with_listed_members(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """The records, with the ranks that list a group as its members: older dumps of NCCL list the groups of their rank alone.

    A rank without a dump is a member of the groups that lack one of as many as others with their description have. Where that
    does not tell, the members stay unknown.
    """
    if any(
        group.ranks is not None or group.backend not in ("nccl", "") for one in records for group in one.value.groups
    ):
        return records
    listed: dict[str, list[int]] = defaultdict(list)
    groups: dict[str, ProcessGroup] = {}
    for entry in records:
        for group in entry.value.groups:
            listed[group.name].append(entry.rank)
            groups[group.name] = group
    ranks = sorted(records.ranks)
    gone = {*range(ranks[-1] + 1)}.difference(ranks) if ranks else set()
    sizes: dict[str, list[int]] = defaultdict(list)
    for name, group in groups.items():
        sizes[group.description].append(len(listed[name]))
    members: dict[str, tuple[int, ...]] = {}
    for name, group in groups.items():
        alike = sizes[group.description] if group.description else [len(listed[name])]
        lacking = max(alike) - len(listed[name])
        if group.description == DEFAULT_GROUP or (gone and len(alike) == 1 and len(listed[name]) == len(ranks)):
            members[name] = tuple(range(ranks[-1] + 1))
        elif lacking in (0, len(gone)) and (len(alike) > 1 or not gone):
            members[name] = tuple(sorted({*listed[name], *(gone if lacking else ())}))
    entries = (Entry(entry.rank, entry.host, _completed(entry.value, members)) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def _completed(record: FlightRecord, members: dict[str, tuple[int, ...]]) -> FlightRecord:
    if all(group.ranks is not None or group.name not in members for group in record.groups):
        return record
    groups = (
        replace(group, ranks=members[group.name]) if group.ranks is None and group.name in members else group
        for group in record.groups
    )
    return replace(record, groups=tuple(groups))
