"""The flight recorders of all ranks as one timeline: what each process group agrees on, and where that ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress, count
from statistics import multimode

from ddpdoctor.analysis.agreement import Disagreement, disagreement, operation
from ddpdoctor.analysis.other_lines import OtherLines, other_lines
from ddpdoctor.analysis.tracks import UNKNOWN, Lane, Track, lanes_of, users_stack
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.recorder import Call, FlightRecord, State
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import SkipCheck

DEFAULT_GROUP = ("default_pg", "0", "")
TRUSTED_AGE_SECONDS = 7 * 86400  # for calls whose timeout is not known
GRACE_SECONDS = 60.0  # from a timeout to the dump that it causes: NCCL's watchdog waits that long for its peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One call on one rank. `stack` are the user's own frames, outermost first; `seconds` how old it was at the dump.

    `started` is whether the device had begun it, False as well where the recorder does not look.
    """

    rank: int
    seq: int
    calls: tuple[Call, ...]
    group: str
    stack: tuple[Frame, ...]
    done: bool
    started: bool
    created_ns: int
    seconds: float | None = None

    @property
    def place(self) -> Frame | None:
        """The innermost line of the user's own code, or None where the dump holds no stacks."""
        return self.stack[-1] if self.stack else None

    @property
    def op(self) -> str:
        """The operation's name."""
        return operation(self.calls)

    @property
    def name(self) -> str:
        """The call as people say it: `all_reduce #41`, with the group where it is not the default one."""
        return f"{self.op} #{self.seq}" + (f" of {self.group}" if self.group else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Every rank's record, the calls that the numbers in tracks stand for, and lines for records that hold none."""

    records: Mapping[int, FlightRecord]
    calls: tuple[tuple[Call, ...], ...]
    lines: OtherLines

    def made(self, track: Track, group: str, seq: int) -> Made | None:
        """The call that a rank made as number `seq` of the group with this name, or None where it is not known."""
        if not track.first <= seq <= track.last or track.entries[seq - track.first] < 0:
            return None
        record, position = self.records[track.rank], track.entries[seq - track.first]
        created, call = record.created_ns[position], record.calls[record.call[position]]
        done = record.state[position] is State.DONE
        stack = users_stack(record, record.stack[position])
        if not stack:
            waits = not done and position == len(record) - 1
            stack = self.lines.of(track.rank, record.groups[call.group].name, record.seq[position], waits=waits)
        return Made(
            rank=track.rank,
            seq=seq,
            calls=self.calls[track.calls[seq - track.first]],
            group=group,
            stack=stack,
            done=done,
            started=record.state[position] is not State.SCHEDULED,
            created_ns=created,
            seconds=age(record, created, call.timeout_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """The first collective of a group in which ranks differ, what each made of it, and how many more differ so."""

    kind: Disagreement
    seq: int
    made: Mapping[int, Made]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeline:
    """One process group. `last` is each rank's last call, `recorded` the members whose recorder we have.

    `top` is the highest number that any rank has reached. `clashes` holds the first disagreement of each kind. `open`
    are the calls that their ranks had not finished, the oldest of each rank; `awaited` is the number of that in which most
    of them wait, `top` where nobody does: NCCL's ranks queue more calls behind it. `behind` are the recorded members that
    have not made call number `awaited`.
    """

    name: str
    backend: str
    members: tuple[int, ...]
    recorded: tuple[int, ...]
    last: Mapping[int, Made]
    top: int
    clashes: Mapping[Disagreement, Clash]
    open: Mapping[int, Made]
    awaited: int
    behind: tuple[int, ...]
    lane: Lane

    def reached(self, rank: int) -> int:
        """The sequence number of this rank's last call, 0 where it made none."""
        return self.last[rank].seq if rank in self.last else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All process groups, and the ranks of the job."""

    groups: tuple[GroupTimeline, ...]
    ranks: tuple[int, ...]
    archive: Archive

    def waiting(self, rank: int) -> Made | None:
        """The collective that this rank was waiting in: its oldest unfinished call in any group."""
        return min(
            (group.open[rank] for group in self.groups if rank in group.open),
            key=lambda made: made.created_ns,
            default=None,
        )

    def made(self, group: GroupTimeline, rank: int, seq: int) -> Made | None:
        """The call that this rank made as number `seq` of the group, or None where it is not known."""
        track = group.lane.track(rank)
        return self.archive.made(track, group.name, seq) if track is not None else None


def derive(
    records: PerRank[FlightRecord], calls: PerRank[CollectiveCalls] | None, stacks: PerRank[Stacks] | None = None
) -> Timeline:
    """The timeline of the ranks whose flight recorders there are.

    Raises:
        SkipCheck: the recorders are empty.
    """
    if not any(entry.value.call for entry in records):
        raise SkipCheck("the flight recorders are empty: older versions of torch keep none for gloo")
    made = [group for entry in calls or () for group in entry.value.new_groups]
    lists = {id(group.ranks): group.ranks for entry in records for group in entry.value.groups if group.ranks}
    told = {rank for ranks in lists.values() for rank in ranks}
    everybody = tuple(sorted(told | {*records.ranks}))
    members = {group.name: group.ranks for group in made if group.name is not None}
    lanes, book = lanes_of(records, everybody, members)
    archive = Archive(
        records={entry.rank: entry.value for entry in records},
        calls=tuple(book.calls),
        lines=other_lines(calls, stacks),
    )
    return Timeline(
        groups=tuple(_group(lane, archive) for lane in lanes),
        ranks=everybody,
        archive=archive,
    )


def _group(lane: Lane, archive: Archive) -> GroupTimeline:
    name = _spoken(lane)
    last = {track.rank: made for track in lane.tracks if (made := archive.made(track, name, track.last)) is not None}
    top = max(made.seq for made in last.values())
    under_way = dict(_open(lane, archive, name))
    awaited = min(multimode(made.seq for made in under_way.values()), default=top)
    recorded = tuple(rank for rank in lane.members if rank in archive.records)
    return GroupTimeline(
        name=name,
        backend=lane.group.backend,
        members=lane.members,
        recorded=recorded,
        last=last,
        top=top,
        clashes={clash.kind: clash for clash in _clashes(lane, archive, name)},
        open=under_way,
        awaited=awaited,
        behind=tuple(rank for rank in recorded if rank not in last or last[rank].seq < awaited),
        lane=lane,
    )


def _spoken(lane: Lane) -> str:
    group = lane.group
    if group.name in DEFAULT_GROUP or group.description == DEFAULT_GROUP[0]:
        return ""
    return f"group {group.name}" + (f" ({group.description})" if group.description else "")


def _open(lane: Lane, archive: Archive, name: str) -> Iterator[tuple[int, Made]]:
    for track in lane.tracks:
        states = archive.records[track.rank].state
        under_way = map(State.DONE.__ne__, map(states.__getitem__, track.entries))
        place = next((place for place in compress(count(), under_way) if track.entries[place] >= 0), None)
        made = archive.made(track, name, track.first + place) if place is not None else None
        if made is not None:
            yield track.rank, made


def _clashes(lane: Lane, archive: Archive, name: str) -> Iterator[Clash]:
    """The first clash of each kind among the calls that every recorded rank still holds; none after a wrong operation."""
    if len(lane.tracks) < 2:
        return
    first, last = max(track.first for track in lane.tracks), min(track.last for track in lane.tracks)
    positions = {rank: place for place, rank in enumerate(lane.members)}
    verdicts: dict[tuple[int, ...], Disagreement | None] = {}
    found: dict[Disagreement, tuple[int, int]] = {}
    for seq in _differing(lane.tracks, first, last):
        column = tuple(track.calls[seq - track.first] for track in lane.tracks)
        if column not in verdicts:
            asked = {track.rank: archive.calls[number] for track, number in zip(lane.tracks, column, strict=True)}
            verdicts[column] = disagreement(asked, positions)
        kind = verdicts[column]
        if kind is not None:
            earliest, count = found.get(kind, (seq, 0))
            found[kind] = (earliest, count + 1)
        if kind is Disagreement.OPERATION:
            break
    for kind, (seq, count) in found.items():
        made_by = {track.rank: made for track in lane.tracks if (made := archive.made(track, name, seq)) is not None}
        yield Clash(kind=kind, seq=seq, made=made_by, more=count - 1)


def _differing(tracks: Iterable[Track], first: int, last: int) -> list[int]:
    """The sequence numbers from `first` to `last` at which not all tracks hold the same call."""
    distinct = {track.calls[first - track.first : last + 1 - track.first] for track in tracks}
    if len(distinct) < 2 or last < first:
        return []
    usual, *others = distinct
    return sorted(
        {
            first + offset
            for other in others
            if other != usual
            for offset, (one, two) in enumerate(zip(usual, other, strict=True))
            if one != two and UNKNOWN not in (one, two)
        }
    )


def age(record: FlightRecord, created_ns: int, timeout_ms: int | None) -> float | None:
    """How old a call was when the dump was made; None where the time of the dump cannot be true.

    A call does not live much longer than its timeout: a file that claims so was copied, and has the time of the copy.
    """
    if record.taken_at is None:
        return None
    age = record.taken_at - created_ns / 1e9
    limit = TRUSTED_AGE_SECONDS if timeout_ms is None else 2 * timeout_ms / 1000 + GRACE_SECONDS
    return age if 0 <= age <= limit else None
