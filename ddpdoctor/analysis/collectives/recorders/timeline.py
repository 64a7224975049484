"""The flight recorders of all ranks as one timeline: what each process group agrees on, and where that ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import attrgetter
from statistics import multimode

from ddpdoctor.analysis.collectives.groups.one_order import in_one_order
from ddpdoctor.analysis.collectives.recorders.agents_transfers import with_transfers
from ddpdoctor.analysis.collectives.recorders.call_sequences import (
    MOVING_SECONDS,
    UNKNOWN,
    CallSequence,
    GroupSequences,
    group_sequences_of,
    program_stack,
)
from ddpdoctor.analysis.collectives.recorders.closed_batches import with_closed_batches
from ddpdoctor.analysis.collectives.recorders.dump_times import with_times
from ddpdoctor.analysis.collectives.recorders.earlier_runs import without_earlier_runs
from ddpdoctor.analysis.collectives.recorders.fallback_callsites import OtherLines, other_lines
from ddpdoctor.analysis.collectives.recorders.group_members import with_listed_members, with_members
from ddpdoctor.analysis.collectives.recorders.group_numbers import with_statuses
from ddpdoctor.analysis.collectives.recorders.groups_beside_training import without_groups_beside
from ddpdoctor.analysis.collectives.recorders.matching import MismatchKind, mismatch_kind, operation
from ddpdoctor.analysis.collectives.recorders.multithreaded import made_by_a_thread
from ddpdoctor.analysis.collectives.recorders.open_batches import without_open_batches
from ddpdoctor.analysis.collectives.recorders.replaced_groups import without_replaced
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.ranks import CollectiveCalls, JobSize
from ddpdoctor.evidence.recorder import DEFAULT_GROUP, Call, FlightRecord, State
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import SkipCheck

NAMES_OF_DEFAULT_GROUP = (DEFAULT_GROUP, "0", "")
TRUSTED_AGE_SECONDS = 7 * 86400  # for calls whose timeout is not known
GRACE_SECONDS = 60.0  # from a timeout to the dump that it causes: NCCL's watchdog waits that long for its peers


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCall:
    """One call on one rank."""

    rank: int
    """The rank that issued it."""
    entry: int
    """Its position in the rank's record, which is in the order of the calls, also where the clock is too coarse to show it."""
    seq: int
    """Its number in the group."""
    calls: tuple[Call, ...]
    """What was called; several where they were coalesced."""
    group: str
    """The name of the group; empty for the default one."""
    program: tuple[Frame, ...]
    """The frames of the user's code and of frameworks, outermost first."""
    done: bool
    """Whether it was complete at the dump."""
    started: bool
    """Whether the device had begun it; False as well where the recorder does not record that."""
    created_ns: int
    """When it was issued, in nanoseconds since the epoch."""
    seconds: float | None = None
    """How old it was at the dump; None where that is not known."""

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The user's own frames, outermost first; a framework's where none is the user's."""
        return only_users(self.program)

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
class CallIndex:
    """Every rank's record, the calls that the numbers in call sequences stand for, and lines for records that hold none."""

    records: Mapping[int, FlightRecord]
    """By rank, its recorder."""
    calls: tuple[tuple[Call, ...], ...]
    """What was called, by the numbers in call sequences."""
    sites: tuple[tuple[Frame, ...], ...]
    """The stacks of the calls, by the numbers in call sequences."""
    lines: OtherLines
    """Lines for calls whose records hold no stack."""

    def issued(self, sequence: CallSequence, group: str, seq: int) -> IssuedCall | None:
        """The call that a rank made as number `seq` of the group with this name, or None where it is not known."""
        if not sequence.first <= seq <= sequence.last or sequence.entries[seq - sequence.first] < 0:
            return None
        record, position = self.records[sequence.rank], sequence.entries[seq - sequence.first]
        created, call = record.created_ns[position], record.calls[record.call[position]]
        done = record.state[position] is State.DONE
        program = program_stack(record, record.stack[position])
        waits = not done and position == len(record) - 1
        if program and waits and made_by_a_thread(record, position):
            program = (*self.lines.for_a_thread.get(sequence.rank, ()), *program)
        elif not program:
            program = self.lines.of(sequence.rank, record.groups[call.group].name, record.seq[position], waits=waits)
        return IssuedCall(
            rank=sequence.rank,
            entry=position,
            seq=seq,
            calls=self.calls[sequence.calls[seq - sequence.first]],
            group=group,
            program=program,
            done=done,
            started=record.state[position] is not State.SCHEDULED,
            created_ns=created,
            seconds=age(record, created, call.timeout_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """The first collective of a group in which ranks differ."""

    kind: MismatchKind
    """In what they differ."""
    seq: int
    """The sequence number of the collective."""
    issued: Mapping[int, IssuedCall]
    """By rank, what it called."""
    more: int = 0
    """How many later collectives differ in the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeline:
    """The collectives of one process group."""

    name: str
    """Its name; empty for the default one."""
    backend: str
    """Its backend, such as nccl."""
    members: tuple[int, ...]
    """Global ranks, sorted, also those that left no recorder."""
    recorded: tuple[int, ...]
    """The members that left a recorder."""
    last: Mapping[int, IssuedCall]
    """By rank, its last call."""
    top: int
    """The highest number that any rank has reached."""
    mismatches: Mapping[MismatchKind, Mismatch]
    """By kind, the first collective in which ranks differ."""
    open: Mapping[int, IssuedCall]
    """By rank, its oldest call that was not complete."""
    awaited: int
    """The number of the call in which most of them wait; `top` where nobody waits. NCCL's ranks queue more calls behind it."""
    behind: tuple[int, ...]
    """The recorded members that have not made call number `awaited`."""
    group_sequences: GroupSequences
    """The calls of each member."""
    counted: Mapping[int, int] = field(default_factory=dict)
    """By rank without an entry of the group, the number of its last call by its table: active entries alone are in some dumps."""

    def reached(self, rank: int) -> int:
        """The sequence number of this rank's last call, 0 where it made none."""
        return self.last[rank].seq if rank in self.last else self.counted.get(rank, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All process groups, and the ranks of the job."""

    groups: tuple[GroupTimeline, ...]
    """One per process group in which a rank recorded a collective."""
    ranks: tuple[int, ...]
    """All ranks of the job as far as evidence shows, sorted, also those that left no recorder."""
    call_index: CallIndex
    """Every call, by rank and number."""
    without_end: bool = False
    """Whether nothing shows how many ranks the job has: there may be some above the last one that left a dump."""
    of_earlier_runs: tuple[int, ...] = ()
    """The ranks whose dumps are of a run before this one, and tell nothing."""

    def waiting(self, rank: int) -> IssuedCall | None:
        """The collective that this rank was waiting in: its oldest unfinished call in any group."""
        return min(
            (group.open[rank] for group in self.groups if rank in group.open),
            key=attrgetter("entry"),
            default=None,
        )

    def transfers(self, rank: int) -> bool:
        """Whether the rank waits in a send or receive that its agent saw (gloo): there it is issued where it is waited for."""
        record = self.call_index.records.get(rank)
        if record is None:
            return False
        between = {
            number
            for number, call in enumerate(record.calls)
            if call.point_to_point and record.groups[call.group].backend == "gloo"
        }
        return bool(between) and any(
            call in between and state is not State.DONE for call, state in zip(record.call, record.state, strict=True)
        )

    def issued(self, group: GroupTimeline, rank: int, seq: int) -> IssuedCall | None:
        """The call that this rank made as number `seq` of the group, or None where it is not known."""
        sequence = group.group_sequences.sequence(rank)
        return self.call_index.issued(sequence, group.name, seq) if sequence is not None else None


def derive(
    records: PerRank[FlightRecord],
    calls: PerRank[CollectiveCalls] | None,
    stacks: PerRank[Stacks] | None = None,
    size: JobSize | None = None,
    code: SourceCode | None = None,
) -> Timeline:
    """The timeline of the ranks whose flight recorders there are.

    Raises:
        SkipCheck: the recorders are empty.
    """
    all_records = with_statuses(without_replaced(with_times(_of_one_job(records))))
    records = without_groups_beside(without_open_batches(with_closed_batches(without_earlier_runs(all_records))))
    told_by_agents = with_members(records, calls)
    with_lists = with_listed_members(told_by_agents, size)
    records = with_transfers(with_lists, calls)
    if not any(entry.value.call for entry in records):
        raise SkipCheck("the flight recorders are empty: older versions of torch keep none for gloo")
    issued = [group for entry in calls or () for group in entry.value.new_groups]
    lists = {id(group.ranks): group.ranks for entry in records for group in entry.value.groups if group.ranks}
    listed = {rank for ranks in lists.values() for rank in ranks}
    everybody = tuple(sorted(listed | {*all_records.ranks} | {*records.ranks}))
    members = {
        group.name: group.ranks for group in issued if group.name is not None and min(group.ranks, default=0) >= 0
    }
    transfers = {
        entry.value.groups[call.group].name for entry in records for call in entry.value.calls if call.point_to_point
    }
    per_group, table = group_sequences_of(records, everybody, members)
    per_group = in_one_order(per_group, by_rank(records), code)
    call_index = CallIndex(
        records=by_rank(records),
        calls=tuple(table.calls),
        sites=tuple(table.sites),
        lines=other_lines(calls, stacks),
    )
    return Timeline(
        groups=tuple(_group(group_sequences, call_index, transfers) for group_sequences in per_group),
        ranks=everybody,
        call_index=call_index,
        without_end=size is None and with_lists is not told_by_agents,
        of_earlier_runs=tuple(sorted({*all_records.ranks} - {*records.ranks})),
    )


def _of_one_job(records: PerRank[FlightRecord]) -> PerRank[FlightRecord]:
    """One record of each rank: two processes that were given one number, or a negative one, made no group together."""
    first = {entry.rank: entry for entry in reversed(records.entries) if entry.rank >= 0}
    return PerRank(tuple(first[rank] for rank in sorted(first)), launched=records.launched)


def _group(group_sequences: GroupSequences, call_index: CallIndex, transfers: Collection[str]) -> GroupTimeline:
    """One group; `transfers` are the names of those in which ranks send and receive, which tables of groups count too."""
    name = _spoken(group_sequences)
    last = {
        sequence.rank: issued
        for sequence in group_sequences.sequences
        if (issued := call_index.issued(sequence, name, sequence.last)) is not None
    }
    top = max(issued.seq for issued in last.values())
    under_way = dict(_open(group_sequences, call_index, name))
    awaited = min(multimode(issued.seq for issued in under_way.values()), default=top)
    recorded = tuple(rank for rank in group_sequences.members if rank in call_index.records)
    named = group_sequences.group.name
    without = [rank for rank in recorded if rank not in last] if named not in transfers else []
    counted = {
        rank: group.last_enqueued
        for rank in without
        for group in call_index.records[rank].groups
        if group.name == named and group.last_enqueued is not None
    }
    return GroupTimeline(
        name=name,
        backend=group_sequences.group.backend,
        members=group_sequences.members,
        recorded=recorded,
        last=last,
        top=top,
        mismatches={mismatch.kind: mismatch for mismatch in _mismatches(group_sequences, call_index, name)},
        open=under_way,
        awaited=awaited,
        behind=tuple(rank for rank in recorded if (last[rank].seq if rank in last else counted.get(rank, 0)) < awaited),
        group_sequences=group_sequences,
        counted=counted,
    )


def _spoken(group_sequences: GroupSequences) -> str:
    group = group_sequences.group
    if group.name in NAMES_OF_DEFAULT_GROUP or group.description == DEFAULT_GROUP:
        return ""
    return f"group {group.name}" + (f" ({group.description})" if group.description else "")


def _open(group_sequences: GroupSequences, call_index: CallIndex, name: str) -> Iterator[tuple[int, IssuedCall]]:
    first: dict[tuple[int, int], int | None] = {}  # ranks that did the same share their columns, and the answer
    for sequence in group_sequences.sequences:
        states, entries = call_index.records[sequence.rank].state, sequence.entries
        if (id(states), id(entries)) not in first:
            under_way = map(State.DONE.__ne__, map(states.__getitem__, entries))
            open_ = (place for place in compress(count(), under_way) if entries[place] >= 0)
            first[id(states), id(entries)] = next(open_, None)
        place = first[id(states), id(entries)]
        issued = call_index.issued(sequence, name, sequence.first + place) if place is not None else None
        if issued is not None:
            yield sequence.rank, issued


def _mismatches(group_sequences: GroupSequences, call_index: CallIndex, name: str) -> Iterator[Mismatch]:
    """The first mismatch of each kind; none after a wrong operation.

    Compared are the calls that every recorded rank still holds, and those that two or more made which others have not come to.
    """
    if len(group_sequences.sequences) < 2:
        return
    positions = {rank: place for place, rank in enumerate(group_sequences.members)}
    verdicts: dict[tuple[int, ...], MismatchKind | None] = {}
    found: dict[MismatchKind, tuple[int, int]] = {}
    for seq, sequences in _differing_calls(group_sequences.sequences):
        column = tuple(sequence.calls[seq - sequence.first] for sequence in sequences)
        if column not in verdicts:
            asked = {
                sequence.rank: call_index.calls[number] for sequence, number in zip(sequences, column, strict=True)
            }
            verdicts[column] = mismatch_kind(asked, positions)
        kind = verdicts[column]
        if kind is not None:
            earliest, count = found.get(kind, (seq, 0))
            found[kind] = (earliest, count + 1)
        if kind is MismatchKind.OPERATION:
            break
    for kind, (seq, count) in found.items():
        issued_by = {
            sequence.rank: issued
            for sequence in group_sequences.sequences
            if (issued := call_index.issued(sequence, name, seq)) is not None
        }
        yield Mismatch(kind=kind, seq=seq, issued=issued_by, more=count - 1)


def _differing_calls(sequences: Sequence[CallSequence]) -> Iterator[tuple[int, Sequence[CallSequence]]]:
    """The sequence numbers at which not all ranks that have come so far hold the same call, with the sequences of these."""
    first = max(sequence.first for sequence in sequences)
    for last in sorted({sequence.last for sequence in sequences}):
        came = [sequence for sequence in sequences if sequence.last >= last]
        yield from ((seq, came) for seq in (_differing(came, first, last) if len(came) > 1 else ()))
        first = max(first, last + 1)


def _differing(sequences: Iterable[CallSequence], first: int, last: int) -> list[int]:
    """The sequence numbers from `first` to `last` at which not all call sequences hold the same call."""
    distinct = {sequence.calls[first - sequence.first : last + 1 - sequence.first] for sequence in sequences}
    if len(distinct) < 2 or last < first:
        return []
    majority, *others = distinct
    return sorted(
        {
            first + offset
            for other in others
            if other != majority
            for offset, (one, two) in enumerate(zip(majority, other, strict=True))
            if one != two and UNKNOWN not in (one, two)
        }
    )


def age(record: FlightRecord, created_ns: int, timeout_ms: int | None) -> float | None:
    """How old a call was when the dump was made; None where the time of the dump cannot be true.

    A call does not live much longer than its timeout: a file that claims so was copied, and has the time of the copy. The clock
    of the file server may be a moment behind that of the host, and its times whole seconds: then the call is new.
    """
    if record.taken_at is None:
        return None
    age = record.taken_at - created_ns / 1e9
    limit = TRUSTED_AGE_SECONDS if timeout_ms is None else 2 * timeout_ms / 1000 + GRACE_SECONDS
    return max(age, 0.0) if -MOVING_SECONDS < age <= limit else None
