"""The members of groups of which the recorder does not tell them: by the agents of ranks, or by the ranks that list the group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, JobSize
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, FlightRecord

NAMELESS = ("", "undefined")  # descriptions of groups that the program gave none


def with_members(records: PerRank[FlightRecord], calls: PerRank[CollectiveCalls] | None) -> PerRank[FlightRecord]:
    """The records, with the members of every group that a rank's agent told; gloo's recorder shows none."""
    members = {
        entry.rank: {group.group: group.ranks for group in entry.value.groups}
        for entry in calls or ()
        if entry.value.groups
    }
    if not members:
        return records
    entries = (Entry(entry.rank, entry.host, _completed(entry.value, members.get(entry.rank, {}))) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def with_listed_members(records: PerRank[FlightRecord], size: JobSize | None = None) -> PerRank[FlightRecord]:
    """The records, with the ranks that list a group as its members: older dumps of NCCL list the groups of their rank alone.

    Ranks without a dump are members of the group that lacks as many, where the groups of one description are of one size and
    every rank has one of them. Where that does not tell, the members stay unknown. Without a size the job ends with the last rank
    that left a dump.
    """
    if any(
        group.ranks is not None or group.backend not in ("nccl", "")
        for record in records
        for group in record.value.groups
    ):
        return records
    listed: dict[str, list[int]] = defaultdict(list)
    described: dict[str, list[str]] = defaultdict(list)
    for entry in records:
        for group in entry.value.groups:
            listed[group.name].append(entry.rank)
            if len(listed[group.name]) == 1:
                described[group.description].append(group.name)
    job = range(max([size.ranks if size is not None else 0, *(rank + 1 for rank in records.ranks)]))
    members: dict[str, tuple[int, ...]] = {}
    for description, names in described.items():
        groups = {name: listed[name] for name in names}
        if description == DEFAULT_GROUP:
            members.update(dict.fromkeys(names, tuple(job)))
        elif size is not None and len(records.ranks) == len(job):
            members.update((name, tuple(sorted(ranks))) for name, ranks in groups.items())
        else:
            members.update(_whole(groups, job, {*records.ranks}, alike=description not in NAMELESS))
    entries = (Entry(entry.rank, entry.host, _completed(entry.value, members)) for entry in records)
    return PerRank(tuple(entries), launched=records.launched)


def _whole(
    groups: Mapping[str, Collection[int]], job: range, there: Collection[int], *, alike: bool
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The members of the groups of one description that can be told; `alike` groups are of one size, as far as it fits."""
    gone = {*job}.difference(there)
    size = max(map(len, groups.values()))
    of_all = len(groups) == 1 and size == len(there)
    lacking = sum(size - len(ranks) for ranks in groups.values())
    fits = alike and len(groups) > 1 and lacking == len(gone) and sum(map(len, groups.values())) == len(there)
    for name, ranks in groups.items():
        if of_all:
            yield name, tuple(job)
        elif not gone and (len(ranks) == size or not alike):
            yield name, tuple(sorted(ranks))
        elif fits and size - len(ranks) in (0, len(gone)):
            yield name, tuple(sorted({*ranks, *(gone if len(ranks) < size else ())}))


def _completed(record: FlightRecord, members: dict[str, tuple[int, ...]]) -> FlightRecord:
    if all(group.ranks is not None or group.name not in members for group in record.groups):
        return record
    groups = (
        replace(group, ranks=members[group.name]) if group.ranks is None and group.name in members else group
        for group in record.groups
    )
    return replace(record, groups=tuple(groups))
