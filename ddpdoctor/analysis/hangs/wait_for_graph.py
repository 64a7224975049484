"""Which rank waits for which, over all process groups at once, and the ranks that all others wait for in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import takewhile

from ddpdoctor.analysis.collectives.program_comparison import FirstDeviation, ProgramComparison
from ddpdoctor.analysis.collectives.rank_program import Kind
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Timeline, age
from ddpdoctor.analysis.hangs.components import final_components, reaching
from ddpdoctor.analysis.hangs.outstanding import (
    MOVING_SECONDS,
    ROOTED,
    Operation,
    Outstanding,
    completed_by,
    outstanding_of,
)
from ddpdoctor.model import SkipCheck

WITHOUT_DEVICE = ("gloo",)  # its recorder counts a call that failed as one that is through
WENT_ON_BY = 8  # calls that peers completed without a rank after its dump was made; a root alone is ahead by fewer
MOST_COMPARED = 64  # ranks whose programs are compared, call by call, with those of their like
MOST_MISSING = (
    4  # of as many ranks one may leave no dump because it died; where more are missing, nobody collected them
)


class Reason(Enum):
    """Why the ranks at the end of all waits do not go on."""

    MISSING = "left no dump"
    STOPPED = "enqueued what its peers have completed, and did not complete it"
    IDLE = "has nothing outstanding, and did not enqueue what its peers wait in"
    LEFT_OUT = "did not make a call that ranks with the same part in the job made"
    EXTRA = "made a call that ranks with the same part in the job did not make"
    MISMATCH = "called different things under one number"
    STANDING = "all members have enqueued it, and it does not end"
    CYCLE = "wait for each other"
    NOT_KEPT = "wait in calls that their ring buffers have lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A collective that a rank enqueued and has not completed, while peers of the group have."""

    rank: int
    operation: IssuedCall
    """The oldest one of its group that the ring buffer still holds."""
    not_completed: int
    """The number of the first one in its group. Where it is less than that of `operation`, the ring buffer has lost it."""
    completed: int
    """The number of the last collective of the group that the rank has completed."""
    peers_completed: Mapping[int, int]
    """The same of those peers that are further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForGraph:
    """What all waits of a job lead to."""

    reason: Reason
    ranks: tuple[int, ...]
    """The ranks that the others wait for; those of a cycle, the members of an operation that does not end, or those of which
    the ring buffers do not tell."""
    operations: tuple[Operation, ...]
    """What the others wait in for these ranks, the oldest first."""
    waiting: tuple[int, ...]
    """The ranks that wait for them, directly or through others."""
    groups: int
    """The number of process groups in which these wait."""
    meanwhile: Mapping[int, IssuedCall] = field(default_factory=dict)
    """The oldest outstanding call of each of these ranks that has one."""
    tied: bool = False
    """Whether no majority tells if some ranks left a call out or the others made one more."""
    deviating: tuple[int, ...] = ()
    """Of a cycle, the ranks that made its calls in another order than ranks with the same part in the job."""
    first_deviations: tuple[FirstDeviation, ...] = ()
    """For ranks that left calls out, or made some besides: where they first did, as far as dumps tell."""
    behind: tuple[Behind, ...] = ()
    """For ranks that stopped: what each has not completed and its peers have, the oldest first."""
    stale: tuple[int, ...] = ()
    """Ranks whose dumps are older than what their peers have completed with them."""
    without_dump: tuple[int, ...] = ()
    """Members of process groups that left no dump."""

    def details(self) -> tuple[str, ...]:
        """`13 other ranks wait for it, directly or through others, in 21 process groups`; nothing where one group says it all."""
        others = len({*self.waiting} - {*self.ranks})
        if not others or self.groups < 2:
            return ()
        them = "them" if len(self.ranks) > 1 else "it"
        verb = "rank waits" if others == 1 else "ranks wait"
        return (f"{others} other {verb} for {them}, directly or through others, in {self.groups} process groups",)

    def awaiting(self, ranks: Collection[int]) -> Iterator[tuple[Operation, tuple[int, ...]]]:
        """For each of these ranks the oldest operation that lacks it, collectives first, with all of the ranks that it lacks."""
        oldest: dict[int, tuple[Operation, list[int]]] = {}
        for rank in sorted(ranks):
            lacking = [one for one in self.operations if rank in one.absent or rank in one.without_dump]
            found = min(lacking, key=lambda one: one.group is None, default=None)
            if found is not None:
                oldest.setdefault(id(found), (found, []))[1].append(rank)
        yield from ((operation, tuple(lacking)) for operation, lacking in oldest.values())

    @property
    def begins_with_point_to_point(self) -> bool:
        """Whether the oldest operation that lacks one of its ranks is a send or receive."""
        first = next((operation for operation in self.operations if operation.absent), None)
        return first is not None and first.group is None

    @property
    def only_point_to_point(self) -> bool:
        """Whether all that is waited in is sends and receives."""
        return all(operation.group is None for operation in self.operations)


def derive(timeline: Timeline, programs: ProgramComparison) -> WaitForGraph:
    """What the waits of all ranks lead to, by their flight recorders.

    Raises:
        SkipCheck: nothing is outstanding, what is outstanding is young, or the waits lead to what no dump shows.
    """
    outstanding = outstanding_of(timeline)
    if not outstanding.operations:
        raise SkipCheck("no call is outstanding on any rank: nobody waits")
    seconds = outstanding.seconds
    if seconds is not None and seconds < MOVING_SECONDS:
        raise SkipCheck(f"the oldest outstanding call is {seconds:.1f} s old: the job moves")
    return _Graph(programs, outstanding).verdict()


@dataclass(frozen=True, slots=True)
class _Final:
    """What some waits end in: as in `WaitForGraph`, before it is known who waits for it."""

    reason: Reason
    ranks: tuple[int, ...]
    operations: tuple[Operation, ...]


class _Graph:
    """Ranks and operations: a rank waits for its operations, an operation for the ranks that keep it from ending.

    Ranks are nodes from 0 on; operation number `n` is node `-1 - n`.
    """

    def __init__(self, programs: ProgramComparison, outstanding: Outstanding) -> None:
        self._timeline = timeline = programs.timeline
        self._outstanding = outstanding
        self._programs = programs
        self._completed = {
            id(group): completed_by(timeline, group, transfers=self._programs.with_transfers(group))
            for group in timeline.groups
            if group.open
        }
        self._stale = {*self._older_dumps()}
        self._edges = {-1 - number: [*self._waits_of(one)] for number, one in enumerate(outstanding.operations)}
        nodes = {id(one): -1 - number for number, one in enumerate(outstanding.operations)}
        for rank, operations in outstanding.of_rank.items():
            self._edges[rank] = [nodes[id(one)] for one in operations]

    def verdict(self) -> WaitForGraph:
        """What all waits lead to, and where the ranks at fault first made other calls than their like."""
        found = self._verdict()
        if found.reason not in (Reason.LEFT_OUT, Reason.EXTRA):
            return found
        odd = () if found.tied else found.ranks[:MOST_COMPARED]
        deviations = map(self._programs.first_deviation, odd)
        return replace(found, first_deviations=tuple(one for one in deviations if one is not None))

    def _verdict(self) -> WaitForGraph:
        """The first that holds: a rank is gone, or stopped, or idle; else what all waits end in."""
        missing = self._missing()
        if missing and MOST_MISSING * len(missing) <= len(self._timeline.ranks):
            return self._towards(Reason.MISSING, missing)
        behind = sorted(self._behind(), key=lambda one: one.operation.created_ns)
        if behind:
            return self._towards(Reason.STOPPED, {one.rank for one in behind}, behind=tuple(behind))
        idle = self._idle()
        if idle:
            return self._deviating(self._towards(Reason.IDLE, idle))
        if missing:
            return self._towards(Reason.MISSING, missing)
        return self._final()

    def _older_dumps(self) -> Iterator[int]:
        """The ranks that went on after their dumps were made.

        Peers have completed with them what they had not enqueued, all that they had enqueued was young by their own clock, or
        peers began to wait for them after their dumps, and long before the last dump.
        """
        records = self._timeline.call_index.records
        lacking = self._first_waits()
        last = max((record.taken_at for record in records.values() if record.taken_at is not None), default=0.0)
        for rank, record in records.items():
            taken = record.taken_at
            before = taken is not None and last > taken + MOVING_SECONDS and lacking.get(rank, 0) > taken * 1e9
            if before or self._moved(rank):
                yield rank
        for group in self._timeline.groups:
            completed = self._completed.get(id(group), {})
            furthest = max(completed.values(), default=0)
            for rank in group.last:
                if furthest >= max(group.reached(rank), completed.get(rank, 0)) + WENT_ON_BY:
                    yield rank

    def _first_waits(self) -> dict[int, int]:
        """When the first peer began to wait for each rank that has not enqueued something, in nanoseconds since the epoch."""
        found: dict[int, int] = {}
        for operation in self._outstanding.operations:
            for rank in operation.absent:
                found[rank] = min(found.get(rank, operation.created_ns), operation.created_ns)
        return found

    def _moved(self, rank: int) -> bool:
        """Whether the rank was on its way when its dump was made: its oldest outstanding call, else its last one, is young."""
        record = self._timeline.call_index.records[rank]
        mine = self._outstanding.of_rank.get(rank, ())
        if not mine and not len(record):
            return False
        last = age(record, record.created_ns[-1], record.calls[record.call[-1]].timeout_ms) if not mine else None
        ages = [one.waiting[rank].seconds for one in mine] or [last]
        return all(seconds is not None and seconds < MOVING_SECONDS for seconds in ages)

    def _waits_of(self, operation: Operation) -> Iterator[int]:
        """The ranks that keep this operation from ending, as far as dumps tell, and those of which there is none."""
        absent = [rank for rank in operation.absent if rank not in self._stale]
        yield from absent
        if not operation.absent:
            yield from operation.without_dump
        completed = self._completed[id(operation.group)] if operation.group is not None else {}
        for rank in operation.members:
            mine = self._outstanding.of_rank.get(rank)
            elsewhere = mine and rank not in operation.absent and not self._is_first(mine[0], operation, rank)
            if elsewhere and (rank in operation.waiting or completed.get(rank, 0) < operation.seq):
                yield rank

    def _is_first(self, oldest: Operation, operation: Operation, rank: int) -> bool:
        if oldest is operation:
            return True
        return rank in operation.waiting and _in_one_batch(oldest, operation, rank)

    def _missing(self) -> set[int]:
        """The ranks without a dump, where they are all that some operation still lacks."""
        operations = self._outstanding.operations
        if not any(one.without_dump and not one.absent for one in operations):
            return set()
        return {rank for one in operations for rank in one.without_dump}

    def _behind(self) -> Iterator[Behind]:
        """Per rank the oldest collective that it enqueued and has not completed, and that peers have."""
        oldest: dict[int, Behind] = {}
        for group in self._timeline.groups:
            if group.backend in WITHOUT_DEVICE:
                continue
            completed = self._completed.get(id(group), {})
            furthest = max(completed.values(), default=0)
            for rank, call in group.open.items():
                if rank in self._stale or _differs(group, call.seq):
                    continue
                lost = call.seq > furthest > completed.get(rank, furthest) and not self._has_root(group)
                found = call if lost else self._not_completed(group, rank, call.seq, furthest)
                if found is not None and (rank not in oldest or found.created_ns < oldest[rank].operation.created_ns):
                    first = completed[rank] + 1 if lost else found.seq
                    oldest[rank] = Behind(
                        rank=rank,
                        operation=found,
                        not_completed=first,
                        completed=completed.get(rank, 0),
                        peers_completed={peer: seq for peer, seq in completed.items() if seq >= first and peer != rank},
                    )
        yield from oldest.values()

    def _has_root(self, group: GroupTimeline) -> bool:
        """Whether a call of the group, as far as ring buffers hold them, is one that its root completes before the others."""
        numbers = {number for sequence in group.group_sequences.sequences for number in sequence.calls if number >= 0}
        return any(call.op in ROOTED for number in numbers for call in self._timeline.call_index.calls[number])

    def _not_completed(self, group: GroupTimeline, rank: int, first: int, furthest: int) -> IssuedCall | None:
        """The first of these calls that peers cannot complete alone, as they can one that has a root."""
        calls = (self._timeline.issued(group, rank, seq) for seq in range(first, furthest + 1))
        return next((call for call in calls if call is not None and not call.done and call.op not in ROOTED), None)

    def _idle(self) -> set[int]:
        """The ranks with nothing outstanding that others wait for."""
        awaited = {rank for one in self._outstanding.operations for rank in one.absent}
        return awaited.intersection(self._outstanding.idle) - self._stale - {*self._outstanding.not_kept}

    def _final(self) -> WaitForGraph:
        """What all waits end in: an operation that all its members stand in, or ranks that wait for each other."""
        finals = [self._final_of(component) for component in final_components(self._edges)]
        known = [one for one in finals if one is not None]
        if not known and self._outstanding.not_kept:
            return self._towards(Reason.NOT_KEPT, self._outstanding.not_kept)
        if not known:
            raise SkipCheck("the flight recorders do not show what the ranks wait for in the end")
        first = min(known, key=lambda one: (_at_different_turns(one.operations[0]), one.operations[0].created_ns))
        found = self._towards(first.reason, first.ranks, operations=first.operations)
        judged = self._deviating(found) if found.reason is Reason.CYCLE else found
        mismatch = next((one for one in found.operations if _is_mismatch(one)), None)
        if judged.reason is Reason.CYCLE and not judged.deviating and mismatch is not None:
            return self._towards(Reason.MISMATCH, mismatch.members, operations=(mismatch,))
        return judged

    def _deviating(self, found: WaitForGraph) -> WaitForGraph:
        """The same, or the ranks of these whose programs differ from those of their like in a call that others wait in."""
        in_other_order = self._in_other_order(found) if found.reason is Reason.CYCLE else ()
        if in_other_order:
            return replace(found, deviating=in_other_order)
        others = len(self._outstanding.idle) - len(self._stale.intersection(self._outstanding.idle))
        if found.reason is Reason.IDLE and 2 * others > len(self._timeline.call_index.records):
            besides = {rank for one in found.operations if one.absent for rank in one.waiting}
            if 2 * len(besides) < len(found.ranks):
                return self._towards(Reason.EXTRA, besides, operations=found.operations[:1])
        for operation in sorted(found.operations, key=lambda one: one.group is None):
            if operation.absent:
                absent = {*operation.absent} & {*found.ranks}
                without = {rank for rank in absent if self._surplus(rank, operation) < 0}
                if without:
                    return self._towards(Reason.LEFT_OUT, without, operations=(operation,))
                besides = {rank for rank in operation.waiting if self._surplus(rank, operation) > 0}
                if besides and (found.reason is Reason.CYCLE or len(operation.absent) > len(operation.waiting)):
                    return self._towards(Reason.EXTRA, besides, operations=(operation,))
        for operation in found.operations if found.reason is Reason.CYCLE else ():
            surplus = {rank: self._surplus(rank, operation) for rank in operation.waiting}
            deviating = {rank for rank, extra in surplus.items() if extra}
            if deviating and 2 * len(deviating) <= len(surplus):
                fewer = all(surplus[rank] < 0 for rank in deviating)
                return self._towards(Reason.LEFT_OUT if fewer else Reason.EXTRA, deviating, operations=(operation,))
        if found.reason is not Reason.CYCLE:
            return found
        return self._met_later(found) or self._unusual(found) or found

    def _met_later(self, found: WaitForGraph) -> WaitForGraph | None:
        """The minority in a call that some of its ranks made and others did not, where both went on to a common later one."""
        for operation in found.operations:
            if operation.group is None or not operation.absent or operation.without_dump:
                continue
            later = [{id(one) for one in self._after(operation, rank)} for rank in operation.waiting]
            common = set.intersection(*later)
            oldest = [self._outstanding.oldest(rank) for rank in operation.absent]
            if all(one is not None and id(one) in common and not _is_mismatch(one) for one in oldest):
                made, lacking = len(operation.members) - len(operation.absent), len(operation.absent)
                reason = Reason.LEFT_OUT if lacking < made else Reason.EXTRA
                ranks = operation.absent if lacking < made else operation.waiting
                tied = made == lacking
                found = self._towards(reason, operation.members if tied else ranks, operations=(operation,))
                return replace(found, tied=tied)
        return None

    def _after(self, operation: Operation, rank: int) -> Iterator[Operation]:
        """What this rank waits in besides, enqueued later."""
        mine = self._outstanding.of_rank[rank]
        yield from mine[mine.index(operation) + 1 :]

    def _in_other_order(self, found: WaitForGraph) -> tuple[int, ...]:
        """The minority that is ahead of its like in one of these groups and behind in another."""
        deviating = []
        for rank in found.ranks:
            extra = [self._surplus(rank, one) for one in found.operations if rank in one.members]
            if any(extra) and self._programs.as_long_as_its_like(rank):
                deviating.append(rank)
        return tuple(deviating) if 2 * len(deviating) < max(len(found.ranks), 3) else ()

    def _surplus(self, rank: int, operation: Operation) -> int:
        """How many calls of this kind the rank is ahead of its like; 0 also where that cannot be told."""
        kind = self._kind(rank, operation)
        return (self._programs.surplus(rank, kind) or 0) if kind is not None else 0

    def _kind(self, rank: int, operation: Operation) -> Kind | None:
        between = operation.group is None
        name = operation.link if operation.group is None else operation.group.group_sequences.group.name
        return self._programs.kind(rank, name, point_to_point=between)

    def _unusual(self, found: WaitForGraph) -> WaitForGraph | None:
        """The minority that left out what had always followed before, of ranks of which no majority tells who is odd."""
        deviations = [self._programs.first_deviation(rank) for rank in found.ranks[:MOST_COMPARED]]
        unusual = {one.rank: one for one in deviations if one is not None and one.unusual}
        if not unusual or 2 * len(unusual) > len(found.ranks):
            return None
        for operation in found.operations:
            lacking = unusual.keys() & {*operation.absent}
            if lacking:
                return self._towards(Reason.LEFT_OUT, lacking, operations=(operation,))
        for operation in found.operations:
            replaced = {rank for rank in operation.waiting if rank in unusual and _replaces(operation, unusual[rank])}
            if replaced:
                return self._towards(Reason.LEFT_OUT, replaced, operations=(operation,))
        return None

    def _final_of(self, component: Collection[int]) -> _Final | None:
        operations = sorted(
            (self._outstanding.operations[-1 - node] for node in component if node < 0), key=lambda one: one.created_ns
        )
        standing = [one for one in operations if self._stands(one)]
        if standing:
            innermost = min(
                standing,
                key=lambda one: (
                    sum(before.members != one.members for before in self._before(one, batch=False)),
                    _at_different_turns(one),
                ),
            )
            reason = Reason.MISMATCH if _is_mismatch(innermost) else Reason.STANDING
            return _Final(reason, innermost.members, (innermost,))
        ranks = [node for node in component if node >= 0]
        known = not {*self._outstanding.not_kept}.issuperset(ranks)  # else what they waited in first is lost
        return _Final(Reason.CYCLE, tuple(ranks), tuple(operations)) if known and operations else None

    def _stands(self, operation: Operation) -> bool:
        """Whether all members have enqueued it, and before it wait for nothing but sends and receives that have both sides.

        A receive that was posted early keeps nobody from what was enqueued after it. A batch ends as one: a transfer in it does
        not stand while another one lacks its partner.
        """
        told = operation.group is None or operation.group.group_sequences.members_known
        return (
            operation.complete
            and told
            and {*operation.members}.isdisjoint(self._outstanding.not_kept)
            and len(operation.members) > 1
            and {*operation.waiting} == {*operation.members}
            and all(id(one) in self._posted_on_both_sides for one in self._before(operation))
            and not any(
                one.absent and _in_one_batch(one, operation, rank)
                for rank in operation.members
                for one in self._outstanding.of_rank[rank]
            )
        )

    def _before(self, operation: Operation, *, batch: bool = True) -> Iterator[Operation]:
        """What its members have waited in for longer; without `batch`, not what they issued as one batch with it."""
        for rank in operation.members:
            for before in takewhile(lambda one: one is not operation, self._outstanding.of_rank[rank]):
                if batch or not _in_one_batch(before, operation, rank):
                    yield before

    @cached_property
    def _posted_on_both_sides(self) -> set[int]:
        """The sends and receives that have both sides, with nothing else before them on either."""
        found = {
            id(one): one
            for one in self._outstanding.operations
            if one.group is None and one.complete and {*one.waiting} == {*one.members}
        }
        while True:
            blocked = [
                key for key, one in found.items() if any(id(before) not in found for before in self._before(one))
            ]
            if not blocked:
                return {*found}
            for key in blocked:
                del found[key]

    def _towards(
        self,
        reason: Reason,
        ranks: Collection[int],
        *,
        operations: Collection[Operation] = (),
        behind: tuple[Behind, ...] = (),
    ) -> WaitForGraph:
        reached = reaching(self._edges, ranks)
        waiting = {node for node in reached if node >= 0 and node in self._outstanding.of_rank}
        through = {_group_of(one) for rank in waiting for one in self._outstanding.of_rank[rank]}
        direct = operations or sorted(
            (
                self._outstanding.operations[-1 - node]
                for node in reached
                if node < 0 and not {*self._edges[node]}.isdisjoint(ranks)
            ),
            key=lambda one: one.created_ns,
        )
        return WaitForGraph(
            reason=reason,
            ranks=tuple(sorted(ranks)),
            operations=tuple(direct),
            waiting=tuple(sorted(waiting)),
            groups=len(through),
            meanwhile={
                rank: oldest.waiting[rank] for rank in ranks if (oldest := self._outstanding.oldest(rank)) is not None
            },
            behind=behind,
            stale=tuple(sorted(self._stale)),
            without_dump=tuple(sorted({*self._timeline.ranks} - self._timeline.call_index.records.keys())),
        )


def _differs(group: GroupTimeline, seq: int) -> bool:
    """Whether the ranks of this group had come to call different things by this number: then one may end without the other."""
    return any(mismatch.seq <= seq for mismatch in group.mismatches.values())


def _is_mismatch(operation: Operation) -> bool:
    """Whether its ranks called different things by its number: then it is not one operation."""
    return operation.group is not None and _differs(operation.group, operation.seq)


def _replaces(operation: Operation, deviation: FirstDeviation) -> bool:
    """Whether a later send or receive of this rank has taken the place of one that it left out: then the rank is not absent."""
    if operation.group is not None:
        return False
    waits = operation.waiting[deviation.rank]
    return any(_ends(call) == _ends(waits) for call in deviation.left_out)


def _ends(issued: IssuedCall) -> list[tuple[int | None, int | None]]:
    """Between which places of a group the halves go."""
    return [(call.source, call.target) for call in issued.calls if call.point_to_point and call.source is not None]


def _at_different_turns(operation: Operation) -> bool:
    """Whether it is the nth batch of one rank and another one of its partner: these may not be halves of one transfer."""
    return len({call.seq for call in operation.waiting.values()}) > 1


def _in_one_batch(one: Operation, other: Operation, rank: int) -> bool:
    same = one.group is None and other.group is None and one.link == other.link
    return same and one.waiting[rank].seq == other.waiting[rank].seq


def _group_of(operation: Operation) -> object:
    return id(operation.group) if operation.group is not None else operation.members
