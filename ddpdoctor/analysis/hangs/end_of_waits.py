"""What all waits of a job end in: ranks that stopped, that are gone or idle, operations that stand, or a cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.collectives.programs.first_deviation import FirstDeviations
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.programs.transfer_surplus import TransferSurplus
from ddpdoctor.analysis.collectives.recorders.call_sequences import MOVING_SECONDS
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.completed_calls import completed_by
from ddpdoctor.analysis.hangs.components import final_components, reaching
from ddpdoctor.analysis.hangs.deviating_ranks import MOST_COMPARED, DeviatingRanks, is_mismatch
from ddpdoctor.analysis.hangs.halted_hosts import halted_hosts
from ddpdoctor.analysis.hangs.lost_calls import without_completed_alone
from ddpdoctor.analysis.hangs.older_dumps import (
    are_apart,
    behind_peers,
    ended_on,
    most_ranks_move,
    older_dumps,
    on_their_way,
    recorded_nothing,
    was_at_work,
)
from ddpdoctor.analysis.hangs.operations import Operation
from ddpdoctor.analysis.hangs.outstanding import Outstanding, outstanding_of
from ddpdoctor.analysis.hangs.overtaken_dumps import overtaken_dumps
from ddpdoctor.analysis.hangs.signs_of_motion import sign_in_standing, sign_of_motion
from ddpdoctor.analysis.hangs.standing_operations import StandingOperations, at_different_turns, in_one_batch
from ddpdoctor.analysis.hangs.stopped_ranks import UncompletedCall, stopped_ranks
from ddpdoctor.analysis.hangs.wait_for_graph import FinalWait, Reason, WaitForGraph, is_old
from ddpdoctor.model import SkipCheck, group_ranks


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
    completed = _completed(programs)
    behind = {*behind_peers(timeline)}
    if seconds is not None and 2 * len(behind) <= len(timeline.call_index.records):
        behind = set()  # the times tell more of a few
    overtaken = overtaken_dumps(timeline, completed)
    if (behind and are_apart(timeline, behind)) or 2 * len(overtaken) > len(timeline.call_index.records):
        return _moved("the dumps of its ranks are of different moments")
    if most_ranks_move(timeline, outstanding):
        raise SkipCheck(
            f"most ranks completed calls less than {MOVING_SECONDS:.0f} s before their dumps: the job moves"
        )
    return _Graph(programs, outstanding, completed, behind | overtaken).verdict()


def _completed(programs: ProgramComparison) -> dict[int, dict[int, int]]:
    """By `id` of each group that has outstanding calls, the last collective that each rank has completed."""
    timeline = programs.timeline
    dropped = without_completed_alone(timeline.call_index.records)
    return {
        id(group): completed_by(timeline, group, transfers=programs.with_transfers(group), dropped=dropped)
        for group in timeline.groups
        if group.open
    }


def _moved(motion: str) -> WaitForGraph:
    return WaitForGraph(reason=Reason.MOVED, ranks=(), operations=(), waiting=(), groups=0, motion=motion)


def _together(finals: Iterable[FinalWait]) -> FinalWait:
    """Several operations that stand, where none waits for another one, as one."""
    found = (operation for final in finals for operation in final.operations)
    operations = sorted(found, key=lambda one: (one.created_ns, one.members))
    members = {rank for operation in operations for rank in operation.members}
    return FinalWait(Reason.STANDING, tuple(sorted(members)), tuple(operations))


class _Graph:
    """Ranks and operations: a rank waits for its operations, an operation for the ranks that keep it from ending.

    Ranks are nodes from 0 on; operation number `n` is node `-1 - n`.
    """

    def __init__(
        self,
        programs: ProgramComparison,
        outstanding: Outstanding,
        completed: Mapping[int, Mapping[int, int]],
        behind: Collection[int],
    ) -> None:
        self._timeline = timeline = programs.timeline
        self._outstanding = outstanding
        self._programs = programs
        self._deviating = DeviatingRanks(programs, FirstDeviations(programs), outstanding, TransferSurplus(programs))
        self._completed = completed
        self._recorded_nothing = {*recorded_nothing(timeline)}
        self._older = behind
        older = older_dumps(timeline, outstanding, self._completed)
        self._on_their_way = {*on_their_way(timeline, outstanding)}
        self._stale = {*behind, *older, *self._on_their_way, *self._recorded_nothing}
        self._standing = StandingOperations(outstanding)
        nodes = {id(one): -1 - number for number, one in enumerate(outstanding.operations)}
        self._edges = {
            nodes[id(operation)]: [
                *self._waits_of(operation),
                *outstanding.may_wait_for(operation),
                *(nodes[id(other)] for other in self._standing.of_its_batches(operation)),
            ]
            for operation in outstanding.operations
        }
        for rank, operations in outstanding.of_rank.items():
            self._edges[rank] = [nodes[id(operation)] for operation in operations]

    def verdict(self) -> WaitForGraph:
        """What all waits lead to, and where the ranks at fault first made other calls than their like."""
        found = self._deviating.turning_again(self._verdict())
        if found.reason not in (Reason.LEFT_OUT, Reason.EXTRA):
            return found
        named = () if found.tied else found.ranks[:MOST_COMPARED]
        deviations = map(self._deviating.first_deviations.of, named)
        return replace(found, first_deviations=tuple(deviation for deviation in deviations if deviation is not None))

    def _verdict(self) -> WaitForGraph:
        """The first that holds: a rank has stopped, or is idle, or what waits end in tells; else a rank is gone.

        A dump may be missing because it was lost: what other dumps show decides before that, and so do ranks that wait for each
        other. Of a rank that died, though, peers may have completed a last collective that others have not. What a healthy job
        shows at any moment decides last.
        """
        gone = self._without_dump()
        found = stopped_ranks(self._timeline, self._outstanding, self._completed, self._stale, without_dump=gone)
        behind = sorted(
            (one for one in found if not self._go_on(one.peers_completed)), key=lambda one: one.operation.created_ns
        )
        if behind:
            stopped = {one.rank for one in behind}
            return self._unless_moved(stopped, behind) or self._towards(
                self._waits_for(Reason.STOPPED, stopped), behind=tuple(behind)
            )
        idle = self._idle()
        if idle:
            return self._unless_moved(idle) or self._towards(self._of_idle(idle))
        finals = [one for component in final_components(self._edges) if (one := self._final_of(component)) is not None]
        lasting = [final for final in finals if not final.is_young]
        if lasting:
            return self._judged(lasting)
        missing = gone if self._is_awaited_without_dump() else ()
        crossed = [*self._without(gone)] if missing else []
        if crossed:
            return self._judged(crossed)
        if missing:
            return self._unless_moved(missing) or self._towards(self._waits_for(Reason.MISSING, missing))
        if finals:
            return self._judged(finals)
        lost = self._outstanding.not_kept or {rank for rank, _, _ in self._outstanding.doubtful}
        if lost:
            return self._towards(self._waits_for(Reason.NOT_KEPT, lost))
        return self._towards_older_dumps()

    def _go_on(self, ranks: Collection[int]) -> bool:
        """Whether all of these were at work when their dumps were made: then no stopped device keeps them waiting."""
        return all(was_at_work(self._timeline, self._outstanding, rank) for rank in ranks)

    def _unless_moved(self, named: Collection[int], behind: Sequence[UncompletedCall] = ()) -> WaitForGraph | None:
        """Where no dump shows how old its calls are, ranks are at fault only if all others rest: else that they may not."""
        if self._outstanding.seconds is not None:
            return None
        older = "dumps of other ranks are older than those of their peers" if behind and self._older else None
        moments_kept = any(any(one.completed_ns) for one in self._timeline.call_index.records.values())
        motion = older or sign_of_motion(
            self._timeline, self._outstanding, self._standing, named, behind, moments_kept=moments_kept
        )
        return _moved(motion) if motion is not None else None

    def _waits_of(self, operation: Operation) -> Iterator[int]:
        """The ranks that keep this operation from ending, as far as dumps show, and those of which there is none.

        Nobody where a rank called something else by its number, and has completed it: what the others wait in never ends. Nor
        where it has ended for all, and some had not noted it.
        """
        if _met_another_call(operation) or self._has_ended(operation):
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

    def _has_ended(self, operation: Operation) -> bool:
        """Whether a member that its ring buffer does not mislead shows that it has ended for all."""
        return not {*ended_on(self._timeline, operation)} <= {*self._outstanding.not_kept}

    def _is_first(self, oldest: Operation, operation: Operation, rank: int) -> bool:
        if oldest is operation:
            return True
        return rank in operation.waiting and in_one_batch(oldest, operation, rank)

    def _without(self, gone: Collection[int]) -> Iterator[FinalWait]:
        """The ranks that wait for each other, whatever those without a dump did.

        Not where a send or receive lacks a partner: all other halves of its batch wait for each other then.
        """
        edges = {node: [other for other in waits if other not in gone] for node, waits in self._edges.items()}
        for component in final_components(edges):
            if sum(node >= 0 for node in component) > 1:
                found = self._final_of(component)
                if found is None or found.reason is not Reason.CYCLE or found.is_young:
                    continue
                if all(operation.group is not None or not operation.without_dump for operation in found.operations):
                    yield found

    def _without_dump(self) -> set[int]:
        """The ranks without a dump of this run; not those that are in no group, which an earlier run with more ranks left."""
        records = self._timeline.call_index.records
        lists = {id(group.ranks): group.ranks for one in records.values() for group in one.groups if group.ranks}
        members = {rank for ranks in lists.values() for rank in ranks} if lists else {*self._timeline.ranks}
        return members - records.keys()

    def _is_awaited_without_dump(self) -> bool:
        """Whether ranks without a dump are all that some operation still lacks, and a rank has long waited in it.

        Then each of them is a suspect: of ranks that died together, peers wait for some alone.
        """
        return any(
            operation.without_dump and not operation.absent and is_old(operation)
            for operation in self._outstanding.operations
        )

    def _idle(self) -> set[int]:
        """The ranks with nothing outstanding that others wait for."""
        awaited = {rank for operation in self._outstanding.operations for rank in operation.absent}
        return awaited.intersection(self._outstanding.idle) - self._stale - {*self._outstanding.not_kept}

    def _of_idle(self, idle: Collection[int]) -> FinalWait:
        """These ranks, with others whose hosts have halted; or what sets them apart from their like."""
        idle_in_all = len({*self._outstanding.idle} - self._stale)
        found = self._deviating.of_idle(self._waits_for(Reason.IDLE, idle), idle_in_all=idle_in_all)
        if found.reason is not Reason.IDLE:
            return found
        halted = {*halted_hosts(self._programs, self._outstanding, {*idle, *self._stale})}
        return self._waits_for(Reason.IDLE, {*idle, *halted})

    def _judged(self, finals: Sequence[FinalWait]) -> WaitForGraph:
        """What these show: operations that all their members are in, or ranks that wait for each other."""
        first = min(finals, key=lambda one: (at_different_turns(one.operations[0]), one.operations[0].created_ns))
        if first.reason is Reason.STANDING:
            first = _together(final for final in finals if final.reason is Reason.STANDING)
            motion = sign_in_standing(first.operations) if self._outstanding.seconds is None else None
            if motion is not None:
                return replace(_moved(motion), operations=first.operations)
            return self._towards(self._deviating.left_out_before(first.operations) or first)
        found = self._deviating.of_cycle(first) if first.reason is Reason.CYCLE else first
        undecided = found.reason is Reason.CYCLE and not found.deviating
        if undecided and not {*self._outstanding.not_kept}.isdisjoint(found.ranks):
            found = self._waits_for(Reason.NOT_KEPT, self._outstanding.not_kept)
        return self._towards(found)

    def _towards_older_dumps(self) -> WaitForGraph:
        """The ranks that peers wait for, and whose dumps are from before or empty: of these waits nothing else is known."""
        awaited: set[int] = set()
        for number, operation in enumerate(self._outstanding.operations):
            older = self._stale.intersection(operation.absent)
            self._edges[-1 - number].extend(sorted(older))
            awaited |= older
        if not awaited:
            ended = next(filter(self._has_ended, self._outstanding.operations), None)
            if ended is not None and self._outstanding.seconds is None:
                return _moved(
                    f"{ended.name} has ended on other ranks, and {group_ranks([*ended.waiting])} had not noted it"
                )
            raise SkipCheck("the flight recorders do not show what the ranks wait for in the end")
        if not awaited.isdisjoint(self._on_their_way):
            moving = group_ranks(sorted(awaited & self._on_their_way))
            raise SkipCheck(
                f"{moving} made a call less than {MOVING_SECONDS:.0f} s before the last dump: the job moves"
            )
        if awaited <= self._recorded_nothing:
            return self._towards(self._waits_for(Reason.RECORDED_NOTHING, awaited))
        return self._unless_moved(awaited) or self._towards(self._waits_for(Reason.OLDER, awaited))

    def _final_of(self, component: Collection[int]) -> FinalWait | None:
        operations = sorted(
            (self._outstanding.operations[-1 - node] for node in component if node < 0), key=lambda one: one.created_ns
        )
        standing = [operation for operation in operations if self._standing.stands(operation)]
        if standing:
            innermost = self._standing.innermost(standing)
            reason = Reason.MISMATCH if is_mismatch(innermost[0]) else Reason.STANDING
            members = {rank for one in innermost for rank in one.members}
            return FinalWait(reason, tuple(sorted(members)), tuple(innermost))
        met = next(filter(_met_another_call, operations), None)
        if met is not None:
            return FinalWait(Reason.MISMATCH, met.members, (met,))
        batching = {rank for operation in operations for rank in self._standing.with_batches(operation)}
        ranks = sorted(batching | {node for node in component if node >= 0})
        known = not {*self._outstanding.not_kept}.issuperset(ranks)  # else what they waited in first is lost
        return FinalWait(Reason.CYCLE, tuple(ranks), tuple(operations)) if known and operations else None

    def _waits_for(self, reason: Reason, ranks: Collection[int]) -> FinalWait:
        """All operations that wait for these ranks, the oldest first."""
        waits = (
            operation
            for number, operation in enumerate(self._outstanding.operations)
            if not {*self._edges[-1 - number]}.isdisjoint(ranks)
        )
        return FinalWait(reason, tuple(sorted(ranks)), tuple(sorted(waits, key=lambda one: one.created_ns)))

    def _towards(self, final: FinalWait, *, behind: tuple[UncompletedCall, ...] = ()) -> WaitForGraph:
        """With the ranks that wait for these, directly or through others."""
        reached = reaching(self._edges, final.ranks)
        waiting = {node for node in reached if node >= 0 and node in self._outstanding.of_rank}
        through = {_group_of(one) for rank in waiting for one in self._outstanding.of_rank[rank]}
        oldest = ((rank, self._outstanding.oldest(rank)) for rank in final.ranks)
        return WaitForGraph(
            reason=final.reason,
            ranks=final.ranks,
            operations=final.operations,
            waiting=tuple(sorted(waiting)),
            groups=len(through),
            meanwhile={rank: one.waiting[rank] for rank, one in oldest if one is not None},
            tied=final.tied,
            deviating=final.deviating,
            by_turns=final.by_turns,
            behind=behind,
            recorded_nothing=tuple(sorted(self._recorded_nothing)),
            without_dump=tuple(sorted(self._without_dump())),
        )


def _met_another_call(operation: Operation) -> bool:
    """Whether a rank called something else by its number, which ended there without the others, as a call with a root can."""
    return (
        operation.group is not None
        and operation.complete
        and {*operation.waiting} != {*operation.members}
        and any(mismatch.seq == operation.seq for mismatch in operation.group.mismatches.values())
    )


def _group_of(operation: Operation) -> object:
    return id(operation.group) if operation.group is not None else operation.members
