"""Which rank waits for which, over all process groups at once, and the ranks that all others wait for in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations

from ddpdoctor.analysis.collectives.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.program_comparison import FirstDeviation, ProgramComparison
from ddpdoctor.analysis.collectives.rank_program import Kind
from ddpdoctor.analysis.collectives.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.hangs.components import final_components, reaching
from ddpdoctor.analysis.hangs.older_dumps import (
    are_apart,
    behind_peers,
    most_ranks_move,
    older_dumps,
    recorded_nothing,
)
from ddpdoctor.analysis.hangs.outstanding import Operation, Outstanding, completed_by, outstanding_of
from ddpdoctor.analysis.hangs.signs_of_motion import sign_of_motion
from ddpdoctor.analysis.hangs.standing_operations import StandingOperations, at_different_turns, in_one_batch
from ddpdoctor.analysis.hangs.stopped_ranks import Behind, differs, stopped_ranks
from ddpdoctor.model import SkipCheck, group_ranks

MOST_COMPARED = 64  # ranks whose programs are compared, call by call, with those of their like
MOST_EXCHANGED = 12  # operations of a cycle, two of which a rank may have exchanged


class Reason(Enum):
    """Why the ranks at the end of all waits do not go on."""

    MISSING = "left no dump"
    OLDER = "left a dump that is from before its peers began to wait for it"
    RECORDED_NOTHING = "left a dump without an entry, though it took part in what its peers completed"
    STOPPED = "enqueued what its peers have completed, and did not complete it"
    IDLE = "has nothing outstanding, and did not enqueue what its peers wait in"
    LEFT_OUT = "did not make a call that ranks with the same part in the job made"
    EXTRA = "made a call that ranks with the same part in the job did not make"
    MISMATCH = "called different things under one number"
    STANDING = "all members have enqueued it, and it does not end"
    CYCLE = "wait for each other"
    NOT_KEPT = "wait in calls that their ring buffers have lost"
    MOVED = "may have been on their way when their dumps were made: the files do not tell when that was"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForGraph:
    """What all waits of a job lead to."""

    reason: Reason
    ranks: tuple[int, ...]
    """The ranks that the others wait for; those of a cycle, the members of operations that do not end, or those of which the
    ring buffers do not tell."""
    operations: tuple[Operation, ...]
    """What the others wait in for these ranks, the oldest first; of those that stand, one for each place that is stuck."""
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
    """Ranks whose dumps are older than what their peers have completed with them, or hold nothing of it."""
    recorded_nothing: tuple[int, ...] = ()
    """Those of them whose dumps hold no entry at all."""
    without_dump: tuple[int, ...] = ()
    """Members of process groups that left no dump."""
    motion: str = ""
    """What shows that the job may have moved."""

    def details(self) -> tuple[str, ...]:
        """`13 other ranks wait for it, directly or through others, in 21 process groups`, and which ranks left no dump.

        Nothing where one group says it all, and where all left one or those that did not are at fault.
        """
        others = len({*self.waiting} - {*self.ranks})
        told = []
        if others and self.groups > 1:
            them = "them" if len(self.ranks) > 1 else "it"
            verb = "rank waits" if others == 1 else "ranks wait"
            told.append(
                f"{others} other {verb} for {them}, directly or through others, in {self.groups} process groups"
            )
        if self.without_dump and self.reason is not Reason.MISSING:
            told.append(f"{group_ranks(self.without_dump)} left no dump: it is open what happened there")
        return tuple(told)

    def awaiting(self, ranks: Collection[int]) -> Iterator[tuple[Operation, tuple[int, ...]]]:
        """For each of these ranks the oldest operation that lacks it, collectives first, with all of the ranks that it lacks."""
        oldest: dict[int, tuple[Operation, list[int]]] = {}
        for rank in sorted(ranks):
            lacking = [one for one in self.operations if rank in one.absent or rank in one.without_dump]
            found = min(lacking, key=lambda one: one.group is None, default=None)
            if found is not None:
                oldest.setdefault(id(found), (found, []))[1].append(rank)
        yield from ((operation, tuple(lacking)) for operation, lacking in oldest.values())

    def last_calls(self) -> dict[int, IssuedCall]:
        """For each rank that others wait for, the last collective that it called in the group in which they do."""
        return {
            rank: operation.group.last[rank]
            for operation, lacking in self.awaiting(self.ranks)
            for rank in lacking
            if operation.group is not None and rank in operation.group.last
        }

    @property
    def begins_with_point_to_point(self) -> bool:
        """Whether the first operation that lacks a rank, and that another rank waits in first, is a send or receive.

        What a rank has enqueued behind the call that it waits in is not reached yet: there, peers lack nothing.
        """
        first = next((one for one in self.operations if one.absent and self._is_waited_in_first(one)), None)
        return first is not None and first.group is None

    def _is_waited_in_first(self, operation: Operation) -> bool:
        return any(self.meanwhile.get(rank) is issued for rank, issued in operation.waiting.items())

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
    behind = {*behind_peers(timeline)} if seconds is None else set()
    if behind and are_apart(timeline, behind):
        return _moved("the dumps of its ranks are of different moments")
    if most_ranks_move(timeline, outstanding):
        raise SkipCheck(
            f"most ranks completed calls less than {MOVING_SECONDS:.0f} s before their dumps: the job moves"
        )
    return _Graph(programs, outstanding, behind).verdict()


def _moved(motion: str) -> WaitForGraph:
    return WaitForGraph(reason=Reason.MOVED, ranks=(), operations=(), waiting=(), groups=0, motion=motion)


@dataclass(frozen=True, slots=True)
class _Final:
    """What some waits end in: as in `WaitForGraph`, before it is known who waits for it."""

    reason: Reason
    ranks: tuple[int, ...]
    operations: tuple[Operation, ...]

    @property
    def is_young(self) -> bool:
        """Whether a healthy job shows it at any moment: the last ranks came to it, or all ranks of a cycle, a moment ago."""
        if self.reason is Reason.MISMATCH:
            return False
        if self.reason is Reason.STANDING:
            return all(one.is_young for one in self.operations)
        return not any(map(_is_old, self.operations))


def _is_old(operation: Operation) -> bool:
    """Whether one of its ranks has waited in it for longer than in a healthy job; also where no dump tells."""
    return max(operation.ages, default=MOVING_SECONDS) >= MOVING_SECONDS


def _together(finals: Iterable[_Final]) -> _Final:
    """Several operations that stand, where none waits for another one, as one."""
    found = (one for final in finals for one in final.operations)
    operations = sorted(found, key=lambda one: (one.created_ns, one.members))
    members = {rank for one in operations for rank in one.members}
    return _Final(Reason.STANDING, tuple(sorted(members)), tuple(operations))


class _Graph:
    """Ranks and operations: a rank waits for its operations, an operation for the ranks that keep it from ending.

    Ranks are nodes from 0 on; operation number `n` is node `-1 - n`.
    """

    def __init__(
        self, programs: ProgramComparison, outstanding: Outstanding, behind: Collection[int] = frozenset()
    ) -> None:
        self._timeline = timeline = programs.timeline
        self._outstanding = outstanding
        self._programs = programs
        self._completed = {
            id(group): completed_by(timeline, group, transfers=self._programs.with_transfers(group))
            for group in timeline.groups
            if group.open
        }
        self._recorded_nothing = {*recorded_nothing(timeline)}
        self._older = behind
        older = older_dumps(timeline, outstanding, self._completed)
        self._stale = {*behind, *older, *self._recorded_nothing}
        self._standing = StandingOperations(outstanding)
        nodes = {id(one): -1 - number for number, one in enumerate(outstanding.operations)}
        self._edges = {
            nodes[id(one)]: [
                *self._waits_of(one),
                *(nodes[id(other)] for other in self._standing.of_its_batches(one)),
            ]
            for one in outstanding.operations
        }
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
        """The first that holds: a rank has stopped, or is idle, or what waits end in tells; else a rank is gone.

        A dump may be missing because it was lost: what other dumps show decides before that, and so do ranks that wait for each
        other. Of a rank that died, though, peers may have completed a last collective that others have not. What a healthy job
        shows at any moment decides last.
        """
        gone = {*self._timeline.ranks} - self._timeline.call_index.records.keys()
        found = stopped_ranks(self._timeline, self._outstanding, self._completed, self._stale, without_dump=gone)
        behind = sorted(found, key=lambda one: one.operation.created_ns)
        if behind:
            stopped = {one.rank for one in behind}
            return self._unless_moved(stopped, behind) or self._towards(Reason.STOPPED, stopped, behind=tuple(behind))
        idle = self._idle()
        if idle:
            return self._unless_moved(idle) or self._deviating(self._towards(Reason.IDLE, idle))
        finals = [one for component in final_components(self._edges) if (one := self._final_of(component)) is not None]
        lasting = [one for one in finals if not one.is_young]
        if lasting:
            return self._judged(lasting)
        missing = self._missing()
        crossed = [*self._without(gone)] if missing else []
        if crossed:
            return self._judged(crossed)
        if missing:
            return self._towards(Reason.MISSING, missing)
        if finals:
            return self._judged(finals)
        if self._outstanding.not_kept:
            return self._towards(Reason.NOT_KEPT, self._outstanding.not_kept)
        return self._towards_older_dumps()

    def _unless_moved(self, named: Collection[int], behind: Sequence[Behind] = ()) -> WaitForGraph | None:
        """Where no dump tells how old its calls are, ranks are at fault only if all others rest: else that they may not."""
        if self._outstanding.seconds is not None:
            return None
        older = "dumps of other ranks are older than those of their peers" if behind and self._older else None
        motion = older or sign_of_motion(self._outstanding, self._standing, named, behind)
        return _moved(motion) if motion is not None else None

    def _waits_of(self, operation: Operation) -> Iterator[int]:
        """The ranks that keep this operation from ending, as far as dumps tell, and those of which there is none.

        Nobody where a rank called something else by its number, and is through with it: what the others wait in never ends.
        """
        if _met_another_call(operation):
            return
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
        return rank in operation.waiting and in_one_batch(oldest, operation, rank)

    def _without(self, gone: Collection[int]) -> Iterator[_Final]:
        """The ranks that wait for each other, whatever those without a dump did.

        Not where a send or receive lacks a partner: all other halves of its batch wait for each other then.
        """
        edges = {node: [other for other in waits if other not in gone] for node, waits in self._edges.items()}
        for component in final_components(edges):
            if sum(node >= 0 for node in component) > 1:
                found = self._final_of(component)
                if found is None or found.reason is not Reason.CYCLE or found.is_young:
                    continue
                if all(one.group is not None or not one.without_dump for one in found.operations):
                    yield found

    def _missing(self) -> set[int]:
        """The ranks without a dump, where they are all that some operation still lacks, and a rank has long waited in it."""
        operations = self._outstanding.operations
        if not any(one.without_dump and not one.absent and _is_old(one) for one in operations):
            return set()
        return {rank for one in operations for rank in one.without_dump}

    def _idle(self) -> set[int]:
        """The ranks with nothing outstanding that others wait for."""
        awaited = {rank for one in self._outstanding.operations for rank in one.absent}
        return awaited.intersection(self._outstanding.idle) - self._stale - {*self._outstanding.not_kept}

    def _judged(self, finals: Sequence[_Final]) -> WaitForGraph:
        """What these tell: operations that all their members stand in, or ranks that wait for each other."""
        first = min(finals, key=lambda one: (at_different_turns(one.operations[0]), one.operations[0].created_ns))
        if first.reason is Reason.STANDING:
            first = _together(one for one in finals if one.reason is Reason.STANDING)
            before = self._left_out_before(first.operations)
            if before is not None:
                return before
        found = self._towards(first.reason, first.ranks, operations=first.operations)
        judged = self._deviating(found) if found.reason is Reason.CYCLE else found
        mismatch = next((one for one in found.operations if _is_mismatch(one)), None)
        if judged.reason is Reason.CYCLE and not judged.deviating and mismatch is not None:
            return self._towards(Reason.MISMATCH, mismatch.members, operations=(mismatch,))
        if judged.reason is Reason.CYCLE and not judged.deviating:
            return self._of_two_sides(judged) or judged
        return judged

    def _left_out_before(self, operations: Sequence[Operation]) -> WaitForGraph | None:
        """The one rank of a send with its receive that has made another number of them than ranks with its part.

        What both sides have posted are not halves of one transfer then.
        """
        for operation in operations:
            if operation.group is None:
                surplus = {rank: extra for rank in operation.members if (extra := self._surplus(rank, operation))}
                if len(surplus) == 1:
                    ((rank, extra),) = surplus.items()
                    reason = Reason.LEFT_OUT if extra < 0 else Reason.EXTRA
                    return self._towards(reason, (rank,), operations=(operation,))
        return None

    def _of_two_sides(self, found: WaitForGraph) -> WaitForGraph | None:
        """The few ranks that all others wait for, each in a group of its own, while these few wait together for all others.

        They have left out what the others wait in. Not where only two groups are used, of which either may have its turn first.
        """
        lacking = [one for one in found.operations if one.group is not None and one.absent and not one.without_dump]
        smaller = (min((one.waiting, one.absent), key=len) for one in lacking)
        few = {rank for ranks in smaller for rank in ranks}
        left_out = [one for one in lacking if few.issuperset(one.absent) and few.isdisjoint(one.waiting)]
        theirs = [one for one in lacking if few == {*one.waiting} and few.isdisjoint(one.absent)]
        apart = len(left_out) + len(theirs) == len(lacking) and len(theirs) == 1
        if not apart or len(left_out) < 2 or 2 * len(few) >= len(found.ranks):
            return None
        if {rank for one in left_out for rank in one.absent} != few:
            return None
        return self._towards(Reason.LEFT_OUT, few, operations=left_out)

    def _towards_older_dumps(self) -> WaitForGraph:
        """The ranks that peers wait for, and whose dumps are from before or empty: of these waits nothing else is known."""
        awaited: set[int] = set()
        for number, operation in enumerate(self._outstanding.operations):
            older = self._stale.intersection(operation.absent)
            self._edges[-1 - number].extend(sorted(older))
            awaited |= older
        if not awaited:
            raise SkipCheck("the flight recorders do not show what the ranks wait for in the end")
        return self._towards(Reason.RECORDED_NOTHING if awaited <= self._recorded_nothing else Reason.OLDER, awaited)

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
                told = len(operation.absent) > len(operation.waiting) or besides == {*operation.waiting}
                if besides and (found.reason is Reason.CYCLE or told):
                    return self._towards(Reason.EXTRA, besides, operations=(operation,))
        for operation in found.operations if found.reason is Reason.CYCLE else ():
            surplus = {rank: self._surplus(rank, operation) for rank in operation.waiting}
            deviating = {rank for rank, extra in surplus.items() if extra}
            if deviating and 2 * len(deviating) <= len(surplus):
                fewer = all(surplus[rank] < 0 for rank in deviating)
                return self._towards(Reason.LEFT_OUT if fewer else Reason.EXTRA, deviating, operations=(operation,))
        if found.reason is not Reason.CYCLE:
            return found
        return self._exchanged(found) or self._met_later(found) or self._unusual(found) or found

    def _exchanged(self, found: WaitForGraph) -> WaitForGraph | None:
        """The same with the ranks that made two of these calls in another order than ranks with their part made them."""
        deviating = [rank for rank in found.ranks[:MOST_COMPARED] if self._exchanged_by(rank, found.operations)]
        if not deviating or 2 * len(deviating) >= max(len(found.ranks), 3):
            return None
        return replace(found, deviating=tuple(deviating))

    def _exchanged_by(self, rank: int, operations: Sequence[Operation]) -> bool:
        made = [
            (kind, one.seq)
            for one in operations
            if one.group is not None and rank in one.members and (kind := self._kind(rank, one)) is not None
        ]
        return any(self._programs.exchanged(rank, *pair) for pair in combinations(made[:MOST_EXCHANGED], 2))

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
        standing = [one for one in operations if self._standing.stands(one)]
        if standing:
            innermost = self._standing.innermost(standing)
            reason = Reason.MISMATCH if _is_mismatch(innermost[0]) else Reason.STANDING
            members = {rank for one in innermost for rank in one.members}
            return _Final(reason, tuple(sorted(members)), tuple(innermost))
        met = next(filter(_met_another_call, operations), None)
        if met is not None:
            return _Final(Reason.MISMATCH, met.members, (met,))
        batching = {rank for one in operations for rank in self._standing.with_batches(one)}
        ranks = sorted(batching | {node for node in component if node >= 0})
        known = not {*self._outstanding.not_kept}.issuperset(ranks)  # else what they waited in first is lost
        return _Final(Reason.CYCLE, tuple(ranks), tuple(operations)) if known and operations else None

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
            recorded_nothing=tuple(sorted(self._recorded_nothing)),
            without_dump=tuple(sorted({*self._timeline.ranks} - self._timeline.call_index.records.keys())),
        )


def _is_mismatch(operation: Operation) -> bool:
    """Whether its ranks called different things by its number: then it is not one operation."""
    return operation.group is not None and differs(operation.group, operation.seq)


def _met_another_call(operation: Operation) -> bool:
    """Whether a rank called something else by its number, which ended there without the others, as a call with a root can."""
    return (
        operation.group is not None
        and operation.complete
        and {*operation.waiting} != {*operation.members}
        and any(mismatch.seq == operation.seq for mismatch in operation.group.mismatches.values())
    )


def _replaces(operation: Operation, deviation: FirstDeviation) -> bool:
    """Whether a later send or receive of this rank has taken the place of one that it left out: then the rank is not absent."""
    if operation.group is not None:
        return False
    waits = operation.waiting[deviation.rank]
    return any(_ends(call) == _ends(waits) for call in deviation.left_out)


def _ends(issued: IssuedCall) -> list[tuple[int | None, int | None]]:
    """Between which places of a group the halves go."""
    return [(call.source, call.target) for call in issued.calls if call.point_to_point and call.source is not None]


def _group_of(operation: Operation) -> object:
    return id(operation.group) if operation.group is not None else operation.members
