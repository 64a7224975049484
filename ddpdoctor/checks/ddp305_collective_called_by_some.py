"""A collective that some ranks call and the others never do, as under `if rank == 0`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.collectives.first_divergence import FirstDivergence
from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync, Desyncs, passed_over, turns_without_a_call
from ddpdoctor.analysis.collectives.groups.guarded_calls import GuardedCall, GuardedCalls
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.iteration_skew import (
    ForkedForward,
    Iterations,
    IterationSkew,
    UnevenAccumulation,
)
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture
from ddpdoctor.analysis.collectives.loops.unequal_iterations import UnequalIterations, unequal_iterations
from ddpdoctor.analysis.collectives.loops.unreduced_steps import UnreducedSteps
from ddpdoctor.analysis.collectives.places.conditions_above import rank_test
from ddpdoctor.analysis.collectives.places.relations import Relation
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks import error_desync
from ddpdoctor.analysis.collectives.stacks.aborted_under_a_test import AbortedUnderATest
from ddpdoctor.analysis.collectives.stacks.error_desync import ErrorDesync
from ddpdoctor.analysis.collectives.stacks.stack_desync import HOW_IT_IS_KNOWN
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.crashes import exception_context
from ddpdoctor.analysis.hangs.ended_peers import EndedPeers
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.source import Condition, SourceCode
from ddpdoctor.messages import (
    deviating_programs,
    first_deviations,
    framework_requests,
    last_places,
    unshared_call_remedies,
    unshared_calls,
    ways_out,
)
from ddpdoctor.messages import unequal_iterations as iterations_messages
from ddpdoctor.messages.calls_between_iterations import called_by_some
from ddpdoctor.messages.collectives import condition_note, names, unplaced, witnesses
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks, verb

RULE = Rule(
    code="DDP305",
    name="collective-called-by-some",
    summary="some ranks call a collective that the others never call",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor hang` shows one rank at another line, or in no call, because of an `if` or a loop turn",
    remedy="call it on every rank, or run this part on the unwrapped module (`ddp.module`) so that it needs no collective",
    explains=("DDP302", "DDP307", "DDP312", "DDP314", "DDP316", "DDP318", "DDP408"),
)

OF_A_FORWARD = "run this part on every rank, or on the unwrapped module (`ddp.module`), which needs no collective"

BY_THE_SOURCE = (
    "found in the source: no other call that all ranks must make stands under a test of the rank; calls that were paired with "
    "those of another line let ranks go on"
)
OF_A_GROUP = (
    "call it on every rank of its group, or give it the group of the ranks that make it (`group=`); without `group=` it is a "
    "call of all ranks"
)


def check(
    desyncs: Desyncs | None,
    iterations: Iterations | None,
    first: FirstDivergence | None,
    stack_desync: StackDesync | None,
    calls: PerRank[CollectiveCalls] | None,
    graph: WaitForGraph | None,
    timeline: Timeline | None = None,
    code: SourceCode | None = None,
    ended_peers: EndedPeers | None = None,
    guarded: GuardedCalls | None = None,
    at_the_end: ErrorDesync | None = None,
) -> Iterator[Finding]:
    """The ranks with a call too many, or without one, how many each made, and the line of that call.

    Where all ranks ended with exit code 0 and had called different numbers of collectives, these numbers.

    Ranks whose iterations had diverged before diverge in the end in any call: that is no call too many.
    """
    match first:
        case FirstDivergence(UnevenAccumulation() | UnreducedSteps()):
            return  # DDP316
        case FirstDivergence(ForkedForward() as forked):
            yield _by_forwards(forked)
            return
        case FirstDivergence(AbortedUnderATest() as aborted):
            places = last_places.where_of_a_test(aborted)
            yield RULE.finding(last_places.sentence_of_a_test(aborted), ranks=aborted.ranks, where=places)
            return
    if desyncs is None:
        yield from _without_recorders(stack_desync, ended_peers, at_the_end)
        return
    if stack_desync is not None and not desyncs.found:
        yield from _by_stacks(stack_desync, ())
        return
    met = {desync.culprits for desync in (*desyncs.of(Cause.MISMATCH), *desyncs.shapes)}  # DDP301, DDP302
    reported = any(desync.more_turns for desync in desyncs.found) or (
        graph is not None and any({*graph.ranks} <= {*ranks} for ranks in met)
    )
    skew = iterations.out_of_step if iterations is not None else None
    departed = _departed(first)
    for desync in (*desyncs.of(Cause.EXTRA), *desyncs.of(Cause.MISSING)):
        if skew is not None and (desync.counts or _had_diverged(skew, desync)):
            continue
        if departed and (desync.tied or departed == desync.minority):
            return  # the numbers of their collectives are others since then: DDP316
        reported = True
        yield _by_desync(desync, skew, calls, timeline, code)
    if reported:
        return
    if guarded is not None and guarded.found:
        yield from map(_by_group, guarded.found)
    elif graph is not None and graph.reason in (Reason.LEFT_OUT, Reason.EXTRA) and not graph.only_point_to_point:
        yield _by_programs(graph, timeline, code)


def _without_recorders(
    stack_desync: StackDesync | None, ended_peers: EndedPeers | None, at_the_end: ErrorDesync | None
) -> Iterator[Finding]:
    if ended_peers is not None and ended_peers.test is not None:
        yield _by_ends(ended_peers, *ended_peers.test)
    elif stack_desync is None and at_the_end is not None:
        yield from _by_stacks(at_the_end.found, (error_desync.HOW_IT_IS_KNOWN,))
    else:
        yield from _by_stacks(stack_desync, (HOW_IT_IS_KNOWN,))


def _by_desync(
    desync: Desync,
    skew: IterationSkew | None,
    calls: PerRank[CollectiveCalls] | None,
    timeline: Timeline | None,
    code: SourceCode | None,
) -> Finding:
    """The ranks of one group with a call too many, or without one."""
    everyone = (*desync.minority, *desync.majority)
    errors = exception_context.errors_of(calls, desync)
    earlier = _first_of_them(skew, desync)
    past = [*ways_out.past_a_turn(passed_over(desync, code), desync.minority)]
    unequal = unequal_iterations(desync, timeline, code) if not (earlier or errors or past) else None
    if unequal is not None:
        return _by_turns(desync, unequal, everyone)
    decided = desync.tied and {rank for rank, _ in errors} == {*desync.minority}  # who handled an error is at fault
    return RULE.finding(
        unshared_calls.sentence(desync, earlier, tied=desync.tied and not decided) + unshared_calls.elsewhere(desync),
        ranks=desync.minority if decided else desync.all_culprits,
        where=[
            *framework_requests.where(desync.request, desync.minority),
            *(called_by_some(rank, call, timeline, code) for rank, call in earlier.items()),
            *past,
            *(_told_apart(desync, _witnesses(desync, everyone, code, passed_over=bool(past))) if not earlier else ()),
            *exception_context.where(errors),
        ],
        details=[
            *_by_continue(desync, code),
            *exception_context.sentences(errors),
            *unplaced(desync.issued, everyone),
        ],
        remedy=exception_context.REMEDY if errors else _remedy(desync, passed_over=bool(past)),
        seq=desync.seq,
        group=desync.group.name or "default",
        calls={str(rank): desync.counts.get(rank, desync.group.reached(rank)) for rank in everyone},
    )


def _by_group(call: GuardedCall) -> Finding:
    """A call of a group that some of its members alone made, for which the others wait in calls of groups of theirs."""
    waits = (
        names(call.issued, call.absent)
        if not call.transfers
        else " and ".join(sorted({one.op for one in call.transfers.values()}))
    )
    return RULE.finding(
        f"{group_ranks(call.callers)} called {names(call.issued, call.callers)}"
        f"{'' if call.issued[call.callers[0]].group else ' of the default group'} that {group_ranks(call.absent)} passed by; "
        f"{verb(call.absent, 'it waits', 'they wait')} for {group_ranks(call.callers)} in {waits}",
        ranks=call.culprits,
        where=witnesses(
            call.issued,
            (*call.callers, *(rank for rank in call.absent if rank in call.issued)),
            minority=call.callers,
            minority_note=condition_note(call.comparison),
        )
        + [
            Where.at(one.place, rank=rank, note=f"{one.op} with rank {one.peer}")
            for rank, one in call.transfers.items()
            if one.place is not None
        ],
        details=unplaced(call.issued, call.issued),
        remedy=OF_A_GROUP,
        seq=call.issued[call.callers[0]].seq,
        group=call.issued[call.callers[0]].group or "default",
    )


def _remedy(desync: Desync, *, passed_over: bool) -> str | None:
    """What to change, by how the ranks diverged; None where the rule's own remedy says it."""
    if desync.counts:
        return unshared_call_remedies.OF_COUNTS
    if passed_over:
        return unshared_call_remedies.OF_A_CONTINUE
    own = [one.op for rank, one in desync.issued.items() if rank in desync.minority and desync.cause is Cause.EXTRA]
    return unshared_call_remedies.by_the_test(desync.comparison, own)


def _witnesses(desync: Desync, everyone: Sequence[int], code: SourceCode | None, *, passed_over: bool) -> list[Where]:
    """The lines of the calls, with the condition beside those of the minority, or of the others where the minority made none.

    Where the others made the call under several tests of the rank, each is shown beside its line: one of them is wrong. Where the
    `continue` under the condition is shown, the condition is not repeated.
    """
    comparison = desync.comparison
    tests = _rank_tests(desync, code)
    if len({condition for condition, _ in tests.values()}) > 1 and comparison.relation is Relation.UNCONDITIONAL:
        return [
            *witnesses(desync.issued, desync.minority, minority=desync.minority),
            *(
                where
                for rank, (condition, frame) in tests.items()
                for where in witnesses(
                    desync.issued, [rank], minority=[rank], minority_note=condition_text(condition, frame.file)
                )
            ),
        ]
    if passed_over:
        return witnesses(desync.issued, everyone, minority=desync.minority)
    if comparison.relation is Relation.UNCONDITIONAL and not any(rank in desync.issued for rank in desync.minority):
        condition, frame = comparison.condition, comparison.frame
        note = condition_text(condition, frame.file) if condition is not None and frame is not None else ""
        return witnesses(desync.issued, everyone, minority=desync.majority, minority_note=note)
    return witnesses(desync.issued, everyone, minority=desync.minority, minority_note=condition_note(comparison))


def _told_apart(desync: Desync, found: Sequence[Where]) -> Iterator[Where]:
    """The same lines; of a call with the name of a minority's call, and another line, the note says that it is another one."""
    few = {(one.name, one.place) for rank, one in desync.issued.items() if rank in desync.minority}
    alike = {
        rank
        for rank, one in desync.issued.items()
        if rank not in desync.minority and (one.name, one.place) not in few and one.name in {name for name, _ in few}
    }
    yield from (replace(where, note=f"another {where.note}") if where.rank in alike else where for where in found)


def _rank_tests(desync: Desync, code: SourceCode | None) -> Mapping[int, tuple[Condition, Frame]]:
    """By rank of the majority, the test of the rank around the line of its call; empty where one of them has none."""
    found = {rank: rank_test(desync.issued[rank].stack[-1:], code) for rank in desync.majority if rank in desync.issued}
    tests = {rank: test for rank, test in found.items() if test is not None}
    return tests if len(tests) == len(desync.majority) else {}


def _by_turns(desync: Desync, iterations: UnequalIterations, everyone: Sequence[int]) -> Finding:
    """A loop with a collective in each turn that the minority iterated more or less often."""
    return RULE.finding(
        f"{iterations_messages.sentence(iterations)}{tie_note(tied=desync.tied)}",
        ranks=desync.culprits,
        where=[*iterations_messages.where(iterations), *_witnesses(desync, everyone, None, passed_over=False)],
        details=unplaced(desync.issued, everyone),
        remedy=iterations_messages.REMEDY,
        seq=desync.seq,
        group=desync.group.name or "default",
        turns=iterations.made,
    )


def _by_forwards(forked: ForkedForward) -> Finding:
    others = group_ranks(forked.others)
    test = condition_text(forked.condition, forked.frame.file)
    return RULE.finding(
        f"{group_ranks(forked.ranks)} called forward {forked.number} {test} where {others} "
        f"{verb(forked.others, 'was', 'were')} elsewhere; its collectives were paired with those of other forwards",
        ranks=forked.ranks,
        where=[Where.at(forked.frame, rank=rank, note=f"forward {forked.number}, {test}") for rank in forked.ranks],
        remedy=OF_A_FORWARD,
        forward=forked.number,
    )


def _by_programs(graph: WaitForGraph, timeline: Timeline | None, code: SourceCode | None) -> Finding:
    """By what ranks with the same part in the job call at the same point of their programs, or a rank itself called before."""
    waiting = deviating_programs.waiting_calls(graph)
    shown = {**deviating_programs.next_calls(graph), **waiting}
    earlier = [*first_deviations.earlier(graph)]
    first = deviating_programs.group_operations(graph)[0]
    others_did = deviating_programs.witnesses_of_the_part(graph, earlier)
    turned = iterations_messages.additional_turns(graph, timeline, code) if graph.by_turns else []
    return RULE.finding(
        deviating_programs.sentence(graph, earlier),
        ranks=graph.ranks,
        where=[
            *(where for one in earlier for where in one.where()),
            *turned,
            *witnesses(shown, graph.ranks),
            *witnesses(shown, [rank for rank in waiting if rank not in graph.ranks]),
        ],
        details=[*([others_did] if others_did else ()), *graph.details(), *unplaced(shown, shown)],
        remedy=iterations_messages.REMEDY if turned else None,
        seq=first.seq,
        group=deviating_programs.group_name(first),
        waiting=[*graph.waiting],
    )


def _by_ends(ended: EndedPeers, condition: Condition, frame: Frame) -> Finding:
    """Ranks that wait under a test of the rank, when all others have come to the end of the program without that call."""
    ranks, others = [one.rank for one in ended.waiting], ended.ended
    test = condition_text(condition, frame.file)
    return RULE.finding(
        f"{group_ranks(ranks)} {verb(ranks, 'waits', 'wait')} {ended.operations} that {group_ranks(others)} never "
        f"{verb(others, 'calls', 'call')}: {verb(others, 'it', 'they')} ended with exit code 0",
        ranks=ranks if ended.few_wait else others,
        where=[
            Where.at(one.place, rank=one.rank, note=f"waiting in {one.operation}, {test}")
            for one in ended.waiting
            if one.place is not None
        ],
        details=(HOW_IT_IS_KNOWN,),
    )


def _by_stacks(stack_desync: StackDesync | None, details: Sequence[str]) -> Iterator[Finding]:
    if stack_desync is None:
        raise SkipCheck("no flight-recorder dump, and the stacks do not show ranks in different collectives")
    if stack_desync.cause in (Cause.EXTRA, Cause.MISSING) and not stack_desync.makes_a_group:
        passed = [*ways_out.past_a_turn(stack_desync.passed, stack_desync.culprits)]
        note = condition_note(stack_desync.comparison) if not passed and stack_desync.request is None else ""
        yield RULE.finding(
            f"{stack_desync.sentence()}{tie_note(tied=stack_desync.tied)}",
            ranks=stack_desync.culprits,
            where=[
                *framework_requests.where(stack_desync.request, stack_desync.askers),
                *passed,
                *stack_desync.where(note),
            ],
            remedy=_remedy_of_stacks(stack_desync, passed_over=bool(passed)),
            details=(*details, *([BY_THE_SOURCE] if stack_desync.is_told_by_the_source else [])),
        )


def _remedy_of_stacks(stack_desync: StackDesync, *, passed_over: bool) -> str | None:
    """Likewise, where only stacks show how the ranks diverged."""
    if passed_over:
        return unshared_call_remedies.OF_A_CONTINUE
    own = [one.operation for one in stack_desync.minority if stack_desync.cause is Cause.EXTRA]
    return None if stack_desync.tied else unshared_call_remedies.by_the_test(stack_desync.comparison, own)


def _departed(first: FirstDivergence | None) -> tuple[int, ...]:
    """The ranks that came out of step before, where it is known how: they passed over a batch, or ended a turn too early."""
    match first:
        case FirstDivergence(LoopDeparture(how=DepartureKind.SKIPPED | DepartureKind.IRREGULAR) as departure):
            return departure.ranks
        case FirstDivergence(IterationSkew() as skew) if skew.cut_short:
            return skew.fewer
    return ()


def _had_diverged(skew: IterationSkew, desync: Desync) -> bool:
    """Whether iterations diverged before, and all that the calls show is that one side has come to the end of its loop."""
    at_the_end = desync.comparison.relation is Relation.WITHIN and not desync.group.name and desync.offset is None
    return at_the_end and max(skew.seq.values()) < desync.seq


def _first_of_them(skew: IterationSkew | None, desync: Desync) -> Mapping[int, CollectiveCall]:
    """The first call that the minority alone made, if it is the line in which they wait now that their peers have ended."""
    if skew is None or not desync.ended or desync.cause is not Cause.EXTRA or {*skew.own} != {*desync.minority}:
        return {}
    same = all(call.place is not None and call.place == desync.issued[rank].place for rank, call in skew.own.items())
    return skew.own if same else {}


def _by_continue(desync: Desync, code: SourceCode | None) -> Iterator[str]:
    """Where a rank may have passed over its call, if all that is known is that it called fewer."""
    lines = turns_without_a_call(desync, code) if desync.counts else []
    if lines:
        yield f"a rank that takes the `continue` at {' or '.join(lines)} makes no call in that turn of the loop"
