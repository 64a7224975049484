"""Ranks at the end of all waits whose calls differ from those of ranks with the same part in the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from ddpdoctor.analysis.collectives.programs.first_deviation import FirstDeviation, FirstDeviations
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.programs.rank_program import CallKind
from ddpdoctor.analysis.collectives.programs.transfer_surplus import TransferSurplus
from ddpdoctor.analysis.collectives.programs.usual_course import Course
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.outstanding import Outstanding
from ddpdoctor.analysis.hangs.stopped_ranks import differs
from ddpdoctor.analysis.hangs.wait_for_graph import FinalWait, Reason, WaitForGraph
from ddpdoctor.analysis.majority import vote

MOST_COMPARED = 64  # ranks whose programs are compared, call by call, with those of their like
MANY = 4  # ranks of which all but one have made as many calls
MOST_EXCHANGED = 12  # operations of a cycle, two of which a rank may have exchanged


@dataclass(frozen=True, slots=True)
class DeviatingRanks:
    """Tells which ranks of a cycle, or of those that are idle, left a call out, made one more, or made two in another order."""

    programs: ProgramComparison
    """The calls of each rank beside those of ranks with the same part in the job."""
    first_deviations: FirstDeviations
    """Where ranks first deviate from these, call by call."""
    outstanding: Outstanding
    """What ranks have enqueued and not completed."""
    transfers: TransferSurplus
    """How many sends and receives each rank has issued beside its like."""

    def of_cycle(self, found: FinalWait) -> FinalWait:
        """The same, or those of its ranks that left out what others wait in, made it besides, or made calls in another order."""
        in_other_order = self._in_other_order(found)
        if in_other_order:
            return replace(found, deviating=in_other_order)
        return (
            self._by_surplus(found)
            or self._by_surplus_of_those_waiting(found)
            or self._exchanged(found)
            or self._out_of_step(found)
            or self._met_later(found)
            or self._breaks_pattern(found)
            or self._out_of_turn(found)
            or _mismatched(found)
            or self._of_two_sides(found)
            or found
        )

    def of_idle(self, found: FinalWait, *, idle_in_all: int) -> FinalWait:
        """The same, or the ranks that left out what others wait in, or those that wait in a call that the idle never make.

        `idle_in_all` are the ranks with nothing outstanding, whether others wait for them or not.
        """
        if 2 * idle_in_all > len(self.programs.records):
            besides = {rank for operation in found.operations if operation.absent for rank in operation.waiting}
            if 2 * len(besides) < len(found.ranks):
                return FinalWait(Reason.EXTRA, tuple(sorted(besides)), found.operations[:1])
        return self._by_surplus(found) or found

    def turning_again(self, graph: WaitForGraph) -> WaitForGraph:
        """The same, or, where the ranks at fault make one more turn of a loop that their like have left, that."""
        deviate = graph.reason in (Reason.LEFT_OUT, Reason.EXTRA) and not graph.tied
        ranks = graph.ranks if deviate else graph.deviating if graph.reason is Reason.CYCLE else ()
        compared = ranks[:MOST_COMPARED]
        if not ranks or graph.only_point_to_point or graph.by_turns:
            return graph
        if not all(map(self.first_deviations.turns_again, compared)):
            return graph
        if any(self.first_deviations.of(rank) is not None for rank in compared):
            return graph  # it left a call out, and goes on as its like do
        others = {*graph.waiting, *graph.ranks} - {*ranks}
        return replace(graph, reason=Reason.TURNS_AGAIN, ranks=ranks, waiting=tuple(sorted(others)), deviating=())

    def left_out_before(self, operations: Sequence[Operation]) -> FinalWait | None:
        """The one rank of a send with its receive that has made another number of them than ranks with its part.

        What both sides have posted are not halves of one transfer then.
        """
        for operation in operations:
            if operation.group is None:
                surplus = {rank: extra for rank in operation.members if (extra := self._surplus(rank, operation))}
                if len(surplus) == 1:
                    ((rank, extra),) = surplus.items()
                    return FinalWait(Reason.LEFT_OUT if extra < 0 else Reason.EXTRA, (rank,), (operation,))
        return None

    def _by_surplus(self, found: FinalWait) -> FinalWait | None:
        """The ranks that did not make an operation and have made fewer calls of its kind than their like, or those with more.

        Those of all groups with the same part in the job, where these wait in a collective with the same number.
        """
        operations = sorted(found.operations, key=lambda one: one.group is None)
        verdicts = (one for operation in operations if (one := self._by_surplus_in(operation, found)) is not None)
        first = next(verdicts, None)
        if first is None:
            return None
        alike = [
            operation
            for operation in operations
            if operation is not first.operations[0] and self._is_alike(operation, first)
        ]
        others = (self._by_surplus_in(operation, found) for operation in alike[:MOST_COMPARED])
        same = [first, *(one for one in others if one is not None and one.reason is first.reason)]
        ranks = {rank for one in same for rank in one.ranks}
        return FinalWait(first.reason, tuple(sorted(ranks)), tuple(one.operations[0] for one in same))

    def _by_surplus_in(self, operation: Operation, found: FinalWait) -> FinalWait | None:
        if not operation.absent:
            return None
        absent = {*operation.absent} & {*found.ranks}
        without = {rank for rank in absent if self._surplus(rank, operation) < 0}
        if without:
            return _at(Reason.LEFT_OUT, without, operation)
        besides = {rank for rank in operation.waiting if self._surplus(rank, operation) > 0}
        is_decided = len(operation.absent) > len(operation.waiting) or besides == {*operation.waiting}
        if besides and (found.reason is Reason.CYCLE or is_decided):
            return _at(Reason.EXTRA, besides, operation)
        return None

    def _is_alike(self, operation: Operation, first: FinalWait) -> bool:
        """Whether it is a collective with the same number in another group that has the same part in the job."""
        one = first.operations[0]
        if one.group is None or operation.group is None or operation.seq != one.seq:
            return False
        return self._kind(operation.members[0], operation) == self._kind(one.members[0], one)

    def _by_surplus_of_those_waiting(self, found: FinalWait) -> FinalWait | None:
        """The minority of those that wait in one operation that has made another number of calls of its kind than its like."""
        for operation in found.operations:
            surplus = {rank: self._surplus(rank, operation) for rank in operation.waiting}
            deviating = {rank for rank, extra in surplus.items() if extra}
            if deviating and 2 * len(deviating) <= len(surplus):
                fewer = all(surplus[rank] < 0 for rank in deviating)
                return _at(Reason.LEFT_OUT if fewer else Reason.EXTRA, deviating, operation)
        return None

    def _exchanged(self, found: FinalWait) -> FinalWait | None:
        """The same with the ranks that made two of these calls in another order than ranks with their part made them."""
        deviating = [rank for rank in found.ranks[:MOST_COMPARED] if self._exchanged_by(rank, found.operations)]
        if not deviating or 2 * len(deviating) >= max(len(found.ranks), 3):
            return None
        return replace(found, deviating=tuple(deviating))

    def _exchanged_by(self, rank: int, operations: Sequence[Operation]) -> bool:
        made = [
            (kind, operation.seq)
            for operation in operations
            if operation.group is not None
            and rank in operation.members
            and (kind := self._kind(rank, operation)) is not None
        ]
        return any(self.programs.exchanged(rank, *pair) for pair in combinations(made[:MOST_EXCHANGED], 2))

    def _out_of_step(self, found: FinalWait) -> FinalWait | None:
        """The same with the one rank that made more or fewer calls of a kind than all others before a call of most ranks.

        It waits in one that no other has made by then, or has not made the last one that all others have.
        """
        collectives = [operation for operation in found.operations if operation.group is not None]
        for shared, other in permutations(collectives[:MOST_EXCHANGED], 2):
            made = self._made_before(shared, other, collectives)
            deviating = vote(made).minority if len(made) > MANY and len({*made.values()}) == 2 else ()
            if len(deviating) == 1 and {*deviating} <= {*found.ranks}:
                return replace(found, deviating=tuple(deviating))
        return None

    def _made_before(self, shared: Operation, other: Operation, operations: Sequence[Operation]) -> dict[int, int]:
        """By rank the calls of the kind of `other` before `shared`; of those that do not reach it, until what they wait in.

        Nothing where one of these waits in another kind: then it may have made as many.
        """
        kind = self._kind(other.members[0], other)
        alike = [operation for operation in operations if self._kind(operation.members[0], operation) == kind]
        found = {rank: one.seq for one in alike for rank in one.waiting if rank in shared.absent}
        if not found.keys() >= {*shared.absent}:
            return {}
        for rank in shared.waiting:
            call = self._kind(rank, shared)
            made = self.programs.made_before(rank, kind, (call, shared.seq)) if call and kind else None
            if made is not None:
                found[rank] = made
        return found

    def _met_later(self, found: FinalWait) -> FinalWait | None:
        """The minority in a call that some of its ranks made and others did not, where both went on to a common later one."""
        for operation in found.operations:
            if operation.group is None or not operation.absent or operation.without_dump:
                continue
            later = [{id(one) for one in self._after(operation, rank)} for rank in operation.waiting]
            common = set.intersection(*later)
            oldest = [self.outstanding.oldest(rank) for rank in operation.absent]
            if all(one is not None and id(one) in common and not is_mismatch(one) for one in oldest):
                made, lacking = len(operation.members) - len(operation.absent), len(operation.absent)
                reason = Reason.LEFT_OUT if lacking < made else Reason.EXTRA
                ranks = operation.absent if lacking < made else operation.waiting
                tied = made == lacking
                return replace(_at(reason, operation.members if tied else ranks, operation), tied=tied)
        return None

    def _after(self, operation: Operation, rank: int) -> Iterator[Operation]:
        """What this rank waits in besides, enqueued later."""
        mine = self.outstanding.of_rank[rank]
        yield from mine[mine.index(operation) + 1 :]

    def _in_other_order(self, found: FinalWait) -> tuple[int, ...]:
        """The minority that is ahead of its like in one of these groups and behind in another."""
        deviating = []
        for rank in found.ranks:
            extra = [self._surplus(rank, operation) for operation in found.operations if rank in operation.members]
            if any(extra) and self.programs.as_long_as_its_like(rank) and not self._has_other_halves(rank, found):
                deviating.append(rank)
        return tuple(deviating) if 2 * len(deviating) < max(len(found.ranks), 3) else ()

    def _surplus(self, rank: int, operation: Operation) -> int:
        """How many calls of this kind the rank is ahead of its like; 0 also where that cannot be told."""
        kind = self._kind(rank, operation)
        if kind is None:
            return 0
        extra = self.programs.surplus(rank, kind) or 0
        return extra or (self.transfers.of(rank, kind) or 0 if kind.point_to_point else 0)

    def _has_other_halves(self, rank: int, found: FinalWait) -> bool:
        """Whether a batch of the rank had another number of sends and receives than those of its like."""
        transfers = (one for one in found.operations if one.group is None and rank in one.members)
        kinds = {kind for one in transfers if (kind := self._kind(rank, one)) is not None}
        return any(self.transfers.of_halves(rank, kind) for kind in kinds)

    def _kind(self, rank: int, operation: Operation) -> CallKind | None:
        between = operation.group is None
        name = operation.link if operation.group is None else operation.group.group_sequences.group.name
        return self.programs.kind(rank, name, point_to_point=between)

    def _breaks_pattern(self, found: FinalWait) -> FinalWait | None:
        """The minority that left out what had always followed before, of ranks of which no majority shows who deviates."""
        deviations = [self.first_deviations.of(rank) for rank in found.ranks[:MOST_COMPARED]]
        breaking = {
            deviation.rank: deviation for deviation in deviations if deviation is not None and deviation.breaks_pattern
        }
        if not breaking or 2 * len(breaking) > len(found.ranks):
            return None
        for operation in found.operations:
            lacking = breaking.keys() & {*operation.absent}
            if lacking:
                return _at(Reason.LEFT_OUT, lacking, operation)
        for operation in found.operations:
            replaced = {rank for rank in operation.waiting if rank in breaking and _replaces(operation, breaking[rank])}
            if replaced:
                return _at(Reason.LEFT_OUT, replaced, operation)
        return None

    def _out_of_turn(self, found: FinalWait) -> FinalWait | None:
        """The one rank that waits in a collective besides those of each turn of its loop, while all others are in turn.

        None where the calls of a rank are no turns of a loop: it may have left one out.
        """
        waits = {rank: self.outstanding.oldest(rank) for rank in found.ranks[:MOST_COMPARED]}
        courses = {
            rank: self.first_deviations.course_by_turns(one.waiting[rank])
            for rank, one in waits.items()
            if one is not None
        }
        out_of_turn = [rank for rank, one in courses.items() if one is not Course.IN_TURN]
        if len(courses) < len(found.ranks) or len(out_of_turn) != 1:
            return None
        (rank,) = out_of_turn
        operation = waits[rank]
        if courses[rank] not in (Course.BESIDES, Course.TURNS_AGAIN) or operation is None or not operation.absent:
            return None
        return replace(_at(Reason.EXTRA, {rank}, operation), by_turns=True) if operation.group is not None else None

    def _of_two_sides(self, found: FinalWait) -> FinalWait | None:
        """The few ranks that all others wait for, each in a group of its own, while these few wait together for all others.

        They have left out what the others wait in. Not where only two groups are used, of which either may have its turn first.
        """
        lacking = [
            operation
            for operation in found.operations
            if operation.group is not None and operation.absent and not operation.without_dump
        ]
        waits = Counter(rank for one in lacking for rank in one.waiting)
        awaited = Counter(rank for one in lacking for rank in one.absent)
        for theirs in lacking:
            few = theirs.waiting
            by_them_alone = sum(awaited[rank] == 1 for rank in theirs.absent)
            by_others = len(awaited) - by_them_alone == len(few) and all(map(awaited.get, few))
            beside = by_others and all(waits[rank] == 1 for rank in few)
            for_more = len(few) < len(theirs.absent)
            if beside and for_more and len(lacking) > 2 and 2 * len(few) < len(found.ranks):
                left_out = tuple(one for one in lacking if one is not theirs)
                return FinalWait(Reason.LEFT_OUT, tuple(sorted(few)), left_out)
        return None


def is_mismatch(operation: Operation) -> bool:
    """Whether its ranks called different things by its number: then it is not one operation."""
    return operation.group is not None and differs(operation.group, operation.seq)


def _mismatched(found: FinalWait) -> FinalWait | None:
    """The first operation of a cycle whose ranks called different things by its number."""
    mismatch = next(filter(is_mismatch, found.operations), None)
    return FinalWait(Reason.MISMATCH, mismatch.members, (mismatch,)) if mismatch is not None else None


def _at(reason: Reason, ranks: Collection[int], operation: Operation) -> FinalWait:
    return FinalWait(reason, tuple(sorted(ranks)), (operation,))


def _replaces(operation: Operation, deviation: FirstDeviation) -> bool:
    """Whether a later send or receive of this rank has taken the place of one that it left out: then the rank is not absent."""
    if operation.group is not None:
        return False
    waits = operation.waiting[deviation.rank]
    return any(_ends(call) == _ends(waits) for call in deviation.left_out)


def _ends(issued: IssuedCall) -> list[tuple[int | None, int | None]]:
    """Between which places of a group the halves go."""
    return [(call.source, call.target) for call in issued.calls if call.point_to_point and call.source is not None]
