"""The calls of each rank in each process group, numbered alike on all ranks so that they can be compared in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import eq

from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.frames import Frame, users_frames
from ddpdoctor.evidence.recorder import Call, FlightRecord, Group

UNKNOWN = 0  # the number of a call that the recorder did not keep
END_OF_COALESCED = "coalesced"  # an entry of NCCL's that closes several calls under one number


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The collectives of one rank in one group: `calls[i]` and `sites[i]` number the call made as `first + i`.

    The numbers mean the same on every rank: equal number, equal call (of `Book.call`), equal line of the user's code
    (of `Book.site`). `entries[i]` is its position in the rank's record, -1 for a call that the record does not hold.
    """

    rank: int
    first: int
    calls: tuple[int, ...]
    sites: tuple[int, ...]
    entries: Sequence[int]

    @property
    def last(self) -> int:
        """The sequence number of the last call."""
        return self.first + len(self.calls) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One process group: its members, and the track of each rank.

    Where nobody tells the members (`told` is False), they are the ranks that were seen using it: there may be more.
    """

    group: Group
    members: tuple[int, ...]
    told: bool
    tracks: tuple[Track, ...]

    def track(self, rank: int) -> Track | None:
        """The track of `rank`, or None where it recorded no collective in this group."""
        return next((track for track in self.tracks if track.rank == rank), None)


@dataclass(slots=True)
class Book:
    """The distinct calls and call sites of a job. Number 0 is the call, or the site, of which nothing is known."""

    calls: dict[tuple[Call, ...], int] = field(default_factory=lambda: {(): UNKNOWN})
    sites: dict[tuple[Frame, ...], int] = field(default_factory=lambda: {(): UNKNOWN})
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


def lanes_of(
    records: PerRank[FlightRecord], everybody: tuple[int, ...], members: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[Lane, ...], Book]:
    """One lane a process group, in the order in which the lowest rank used them.

    `everybody` are the ranks of the job, `members` those of groups by name, where something else than recorders tells.
    """
    book = Book()
    found: dict[tuple[str, str, str], list[tuple[Group, Track]]] = {}
    for entry in records:
        for group, track in _tracks(entry, book):
            found.setdefault((group.backend, group.name, group.description), []).append((group, track))
    lanes = [lane for users in found.values() for lane in _split_by_members(users, everybody, members)]
    return tuple(lanes), book


def users_stack(record: FlightRecord, stack: int) -> tuple[Frame, ...]:
    """The frames of the user's own code in stack number `stack`, outermost first."""
    return users_frames(record.frames[position] for position in record.stacks[stack])


def _tracks(entry: Entry[FlightRecord], book: Book) -> Iterator[tuple[Group, Track]]:
    record = entry.value
    numbers, sites = book.numbers(record.calls), book.places(record)
    for number, group in enumerate(record.groups):
        wanted = [call.group == number and not call.point_to_point for call in record.calls]
        if all(wanted):
            positions: Sequence[int] = range(len(record))
            seq, call, stack = record.seq, record.call, record.stack
        else:
            chosen = [*map(wanted.__getitem__, record.call)]
            positions = tuple(compress(range(len(record)), chosen))
            seq, call, stack = (tuple(compress(column, chosen)) for column in (record.seq, record.call, record.stack))
        if not seq:
            continue
        if seq[-1] - seq[0] == len(seq) - 1 and all(map(eq, seq, count(seq[0]))):
            calls, places = tuple(map(numbers.__getitem__, call)), tuple(map(sites.__getitem__, stack))
            yield group, Track(rank=entry.rank, first=seq[0], calls=calls, sites=places, entries=positions)
        else:
            yield group, _with_gaps(entry, book, positions, sites)


def _with_gaps(entry: Entry[FlightRecord], book: Book, positions: Sequence[int], sites: Sequence[int]) -> Track:
    """The track of calls that are not numbered one by one: several coalesced under a number, or numbers left out."""
    record = entry.value
    by_seq: dict[int, list[int]] = {}
    for position in positions:
        by_seq.setdefault(record.seq[position], []).append(position)
    first, last = min(by_seq), max(by_seq)
    if last - first > 2 * len(record) + 1_000_000:
        first = last  # numbers so far apart are damage: the last call is all that can be believed
    calls, places, entries = [], [], []
    for seq in range(first, last + 1):
        group = by_seq.get(seq, [])
        made = tuple(replace(record.calls[record.call[position]], group=0, timeout_ms=None) for position in group)
        calls.append(book.call_number(tuple(call for call in made if call.op != END_OF_COALESCED) or made))
        places.append(sites[record.stack[group[-1]]] if group else UNKNOWN)
        entries.append(group[-1] if group else -1)
    return Track(rank=entry.rank, first=first, calls=tuple(calls), sites=tuple(places), entries=tuple(entries))


def _split_by_members(
    users: list[tuple[Group, Track]], everybody: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> Iterator[Lane]:
    """One lane, or several where groups of one name have different members: `split_group` gives such names."""
    told = {group.ranks for group, _ in users if group.ranks is not None}
    disjoint = sum(map(len, told)) == len(set().union(*told)) if told else True
    if len(told) > 1 and disjoint:
        for members in sorted(told):
            yield _lane([(group, track) for group, track in users if track.rank in members], members, told=True)
        return
    name, description = users[0][0].name, users[0][0].description
    if told:
        yield _lane(users, max(told, key=len), told=True)
    elif description == "default_pg" or name in {"0", "default_pg"}:
        yield _lane(users, everybody, told=True)
    else:
        yield _lane(users, known.get(name, ()), told=name in known)


def _lane(users: list[tuple[Group, Track]], members: tuple[int, ...], *, told: bool) -> Lane:
    tracks = sorted((track for _, track in users), key=lambda track: track.rank)
    everyone = tuple(sorted({*members, *(track.rank for track in tracks)}))
    return Lane(group=users[0][0], members=everyone, told=told, tracks=tuple(tracks))
