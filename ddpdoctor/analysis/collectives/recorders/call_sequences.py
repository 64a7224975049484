"""The calls of each rank in each process group, numbered alike on all ranks so that they can be compared in bulk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter, eq

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.frames import Frame, only_users, program_frames
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, Call, FlightRecord, ProcessGroup
from ddpdoctor.grouping import grouped

UNKNOWN = 0  # the number of a call that the recorder did not keep
MOVING_SECONDS = 2.0  # in a dump of a healthy job, taken at any moment, a rank is later than its peers by less
END_OF_COALESCED = "coalesced"  # an entry of NCCL's that closes several calls under one number


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSequence:
    """The collectives of one rank in one group, in the order of their sequence numbers without a gap.

    The numbers of calls and sites mean the same on every rank: equal number, equal call, equal line of the user's code.
    """

    rank: int
    """The rank, global."""
    first: int
    """The sequence number of `calls[0]`."""
    calls: tuple[int, ...]
    """What it called as `first + i`, as a number of `CallTable.calls`; 0 where the record does not hold it."""
    sites: tuple[int, ...]
    """The line of the user's code that it called from, as a number of `CallTable.sites`; 0 where unknown."""
    entries: Sequence[int]
    """The place of each call in the rank's record; -1 for one that the record does not hold."""

    @property
    def last(self) -> int:
        """The sequence number of the last call."""
        return self.first + len(self.calls) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSequences:
    """One process group, and the call sequence of each rank."""

    group: ProcessGroup
    """The group as the record of its first user has it."""
    members: tuple[int, ...]
    """Its ranks, sorted; where `members_known` is False those that were seen using it: there may be more."""
    members_known: bool
    """Whether a list of members, or its being the default group, shows who belongs to it."""
    sequences: tuple[CallSequence, ...]
    """In order of rank."""

    def sequence(self, rank: int) -> CallSequence | None:
        """The call sequence of `rank`, or None where it recorded no collective in this group."""
        place = bisect_left(self.sequences, rank, key=attrgetter("rank"))
        found = self.sequences[place : place + 1]
        return found[0] if found and found[0].rank == rank else None


@dataclass(slots=True)
class CallTable:
    """The distinct calls and call sites of a job. Number 0 is the call, or the site, of which nothing is known."""

    calls: dict[tuple[Call, ...], int] = field(default_factory=lambda: {(): UNKNOWN})
    """The number of each distinct call, or of each set of calls coalesced into one."""
    sites: dict[tuple[Frame, ...], int] = field(default_factory=lambda: {(): UNKNOWN})
    """The number of each distinct stack of the user's frames."""
    sequences: dict[tuple[int, ...], list[tuple[int, CallSequence]]] = field(default_factory=dict)
    """By the identity of a record's columns, the sequence of each of its groups; ranks that did the same share it."""
    _numbers: dict[int, list[int]] = field(default_factory=dict)
    _places: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def call_number(self, calls: tuple[Call, ...]) -> int:
        """The number of one call, or of several coalesced into one."""
        return self.calls.setdefault(calls, len(self.calls))

    def numbers(self, calls: tuple[Call, ...]) -> list[int]:
        """The number of each of a record's calls; ranks that share the tuple share the answer."""
        if id(calls) not in self._numbers:
            self._numbers[id(calls)] = [self.call_number((replace(call, group=0, timeout_ms=None),)) for call in calls]
        return self._numbers[id(calls)]

    def places(self, record: FlightRecord) -> list[int]:
        """The number of the call site of each of a record's stacks; ranks that share these share the answer."""
        key = id(record.frames), id(record.stacks)
        if key not in self._places:
            stacks = (users_stack(record, stack) for stack in range(len(record.stacks)))
            self._places[key] = [self.site_number(stack) for stack in stacks]
        return self._places[key]

    def site_number(self, stack: tuple[Frame, ...]) -> int:
        """The number of a stack of the user's frames, outermost first."""
        return self.sites.setdefault(stack, len(self.sites))


def group_sequences_of(
    records: PerRank[FlightRecord], everybody: tuple[int, ...], members: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[GroupSequences, ...], CallTable]:
    """One `GroupSequences` for each process group, in the order in which the lowest rank used them.

    `everybody` are the ranks of the job, `members` those of groups by name, where something else than recorders tells.
    """
    table = CallTable()
    found = grouped(
        ((group.backend, group.name, group.description), (group, sequence))
        for entry in records
        for group, sequence in _tracks(entry, table)
    )
    per_group = [
        group_sequences for users in found.values() for group_sequences in _split_by_members(users, everybody, members)
    ]
    return tuple(per_group), table


def users_stack(record: FlightRecord, stack: int) -> tuple[Frame, ...]:
    """The frames of the user's own code in stack number `stack`, outermost first."""
    return only_users(program_stack(record, stack))


def program_stack(record: FlightRecord, stack: int) -> tuple[Frame, ...]:
    """The frames of the user's own code and of frameworks in stack number `stack`, outermost first."""
    return program_frames(record.frames[position] for position in record.stacks[stack])


def _tracks(entry: Entry[FlightRecord], table: CallTable) -> Iterator[tuple[ProcessGroup, CallSequence]]:
    """The sequence of this rank in each group that it used; ranks that did the same share all columns."""
    record = entry.value
    columns = (record.calls, record.frames, record.stacks, record.call, record.seq, record.stack)
    found = table.sequences.setdefault(tuple(map(id, columns)), [])
    if not found:
        found += _sequences(entry, table)
    for number, one in found:
        yield (
            record.groups[number],
            CallSequence(rank=entry.rank, first=one.first, calls=one.calls, sites=one.sites, entries=one.entries),
        )


def _sequences(entry: Entry[FlightRecord], table: CallTable) -> Iterator[tuple[int, CallSequence]]:
    record = entry.value
    numbers, sites = table.numbers(record.calls), table.places(record)
    group_of = [-1 if call.point_to_point else call.group for call in record.calls]
    by_group: dict[int, list[int]] = {}
    for position, call in enumerate(record.call):
        by_group.setdefault(group_of[call], []).append(position)
    for number in sorted(by_group.keys() - {-1}):
        positions = by_group[number]
        seq = [*map(record.seq.__getitem__, positions)]
        if seq[-1] - seq[0] == len(seq) - 1 and all(map(eq, seq, count(seq[0]))):
            calls = tuple(numbers[record.call[position]] for position in positions)
            places = tuple(sites[record.stack[position]] for position in positions)
            entries: Sequence[int] = range(len(record)) if len(positions) == len(record) else tuple(positions)
            yield number, CallSequence(rank=entry.rank, first=seq[0], calls=calls, sites=places, entries=entries)
        else:
            yield number, _with_gaps(entry, table, positions, sites)


def _with_gaps(
    entry: Entry[FlightRecord], table: CallTable, positions: Sequence[int], sites: Sequence[int]
) -> CallSequence:
    """The sequence of calls that are not numbered one by one: several coalesced under a number, or numbers left out."""
    record = entry.value
    by_seq: dict[int, list[int]] = {}
    for position in positions:
        by_seq.setdefault(record.seq[position], []).append(position)
    first, last = min(by_seq), max(by_seq)
    if last - first > 2 * len(record) + 1_000_000:
        first = last  # numbers so far apart are damage: the last call is all that can be believed
    oldest = by_seq[first]
    if first < last and record.lost and oldest[0] == 0 and record.calls[record.call[oldest[-1]]].op == END_OF_COALESCED:
        first = min(seq for seq in by_seq if seq > first)  # the ring may have lost the beginning of this batch
    calls, places, entries = [], [], []
    for seq in range(first, last + 1):
        group = by_seq.get(seq, [])
        issued = tuple(replace(record.calls[record.call[position]], group=0, timeout_ms=None) for position in group)
        calls.append(table.call_number(tuple(call for call in issued if call.op != END_OF_COALESCED) or issued))
        places.append(sites[record.stack[group[-1]]] if group else UNKNOWN)
        entries.append(group[-1] if group else -1)
    return CallSequence(rank=entry.rank, first=first, calls=tuple(calls), sites=tuple(places), entries=tuple(entries))


def _split_by_members(
    users: list[tuple[ProcessGroup, CallSequence]], everybody: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> Iterator[GroupSequences]:
    """One `GroupSequences`, or several where groups of one name have different members: `split_group` gives such names."""
    lists = {id(group.ranks): group.ranks for group, _ in users if group.ranks is not None}
    member_lists = {*lists.values()}
    disjoint = sum(map(len, member_lists)) == len(set().union(*member_lists)) if member_lists else True
    if len(member_lists) > 1 and disjoint:
        for members in sorted(member_lists):
            yield _group_sequences(
                [(group, sequence) for group, sequence in users if sequence.rank in members],
                members,
                members_known=True,
            )
        return
    name, description = users[0][0].name, users[0][0].description
    if member_lists:
        yield _group_sequences(users, max(member_lists, key=len), members_known=True)
    elif description == DEFAULT_GROUP or name in {"0", DEFAULT_GROUP}:
        yield _group_sequences(users, everybody, members_known=True)
    else:
        yield _group_sequences(users, known.get(name, ()), members_known=name in known)


def _group_sequences(
    users: list[tuple[ProcessGroup, CallSequence]], members: tuple[int, ...], *, members_known: bool
) -> GroupSequences:
    sequences = sorted((sequence for _, sequence in users), key=lambda sequence: sequence.rank)
    everyone = tuple(sorted({*members, *(sequence.rank for sequence in sequences)}))
    return GroupSequences(group=users[0][0], members=everyone, members_known=members_known, sequences=tuple(sequences))
