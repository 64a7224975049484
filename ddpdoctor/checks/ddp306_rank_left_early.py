"""A rank that ended its loop, or the program, while others still needed it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.first_divergence import FirstDivergence
from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync, Desyncs, loops_left
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture, LoopDepartures
from ddpdoctor.analysis.collectives.mispaired_objects import MispairedObjects
from ddpdoctor.analysis.collectives.places.framework_requests import (
    exits_of,
    only_request,
)
from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import AbortedPastALoop
from ddpdoctor.analysis.collectives.stacks.stack_desync import HOW_IT_IS_KNOWN
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.crashes import exception_context
from ddpdoctor.analysis.crashes.failure import unique_ranks, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.crashes.own_ends import ended_well
from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.ended_peers import EndedPeers
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import is_users
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit, StepCount
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.messages import (
    deviating_programs,
    early_ends,
    framework_requests,
    last_places,
    loop_departures,
    rank_values,
    ways_out,
)
from ddpdoctor.messages.collectives import names, unplaced, witnesses
from ddpdoctor.messages.left_ranks import LeftRanks, SeenOfRanks, asked_to_stop, details, left_ranks
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.skipped import NO_DUMP_AND_NO_EXIT
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks, measured_by_rank, verb

RULE = Rule(
    code="DDP306",
    name="rank-left-early",
    summary="a rank finished its loop or its program while others still needed it",
    severity=Severity.FAIL,
    shown_by="one rank has exit code 0 or is past the loop that the others are in: `ddpdoctor hang`",
    remedy="give every rank the same number of batches (DistributedSampler with drop_last), or train under "
    "`with Join([model]):`; let all ranks decide together when to stop (all_reduce the decision)",
    explains=("DDP301", "DDP302", "DDP307", "DDP314", "DDP318", "DDP408"),
)

OF_A_JUMP = (
    "let all ranks decide together when to leave the loop (all_reduce the decision), or none; what was trained since is not to "
    "be trusted"
)
OF_A_DECISION = (
    "let all ranks decide together when to leave the loop: all_reduce the decision, or broadcast that of rank 0"
)
OF_A_CONTINUE = (
    "let all ranks decide together whether to pass over a batch (all_reduce the decision), and give every rank the same number "
    "of batches"
)
ALL_COME = (
    "the ranks had made as many steps: let every rank come to the call in which the others lost it, or none of them"
)

OF_AN_EXIT = (
    "end all ranks together: all_reduce what decides it; where one ends for an error, raise an exception or exit with a code "
    "above 0, so that the launcher ends the others"
)
OF_A_BARE_MODEL = (
    "wrap the model in DDP on every rank, and call the DDP model and not the module inside (`model.module`)"
)
ALL_JOIN = (
    "call `init_process_group` on every rank, under no test of the rank, or start fewer ranks (`--nproc-per-node`)"
)


def check(
    desyncs: Desyncs | None,
    failures: Failures | None,
    steps: PerRank[StepCount] | None,
    code: SourceCode | None,
    stack_desync: StackDesync | None,
    calls: PerRank[CollectiveCalls] | None,
    exits: PerRank[RankExit] | None,
    ended_peers: EndedPeers | None,
    first: FirstDivergence | None,
    departures: LoopDepartures | None,
    mispaired: MispairedObjects | None = None,
    hang: Hang | None = None,
    graph: WaitForGraph | None = None,
) -> Iterator[Finding]:
    """The ranks that left, the call that each waits in or that it had ended, and the steps that each had made.

    Where the ranks went on to another pass over their data: the batch after which they left, and by which statement.
    """
    match first:
        case FirstDivergence(LoopDeparture(how=DepartureKind.LEFT | DepartureKind.SHORT, went_on=True) as departure):
            yield _by_departure(departure, code)
            return
        case FirstDivergence(LoopDeparture(went_on=False) as departure):
            lost = [*_behind(departure), *(mispaired.where() if mispaired is not None else ())]
            yield _by_departure(departure, code, lost=lost)
            return
        case FirstDivergence(AbortedPastALoop() as aborted):
            yield _by_abort(aborted)
            return
        case FirstDivergence():
            return  # DDP305 or DDP316
    if desyncs is None and failures is None and stack_desync is None and hang is None:
        raise SkipCheck(NO_DUMP_AND_NO_EXIT)
    last = departures.first if departures is not None else None
    left = desyncs.of(Cause.LEFT) if desyncs is not None else ()
    seen = SeenOfRanks(steps=_made(steps), exits=exits, calls=calls, code=code)
    for together in _by_end(left):
        yield _by_desync(together, last, seen)
    if stack_desync is not None and stack_desync.cause is Cause.LEFT and not stack_desync.passed_over:
        yield _by_their_places(stack_desync, code)
    reported = left or (desyncs is not None and any(desync.ended for desync in desyncs.found))
    if failures is not None and not reported:
        yield from _by_exits(failures, last, seen)
        if ended_peers is not None and (desyncs is None or ended_peers.ask_the_store):
            yield from _by_stacks(ended_peers, exits, code)
    if hang is not None and not reported:
        yield from _at_their_end(hang, seen)
    if graph is not None and graph.reason is Reason.TURNS_AGAIN and (desyncs is None or not desyncs.found):
        yield _by_programs(graph)


def _made(steps: PerRank[StepCount] | None) -> dict[int, int]:
    return {entry.rank: entry.value.steps for entry in steps or () if entry.value.steps is not None}


def _by_abort(aborted: AbortedPastALoop) -> Finding:
    """Ranks past a loop that the others are in, by the stack of a rank that gloo ended."""
    return RULE.finding(
        last_places.sentence(aborted), ranks=aborted.ranks, where=last_places.where(aborted), remedy=OF_A_DECISION
    )


def _by_their_places(found: StackDesync, code: SourceCode | None) -> Finding:
    """Ranks past a loop that the others are in, by the stacks of all."""
    by = [*ways_out.of_loops(found.loops_left, found.culprits)]
    frames = [frame for frame, _ in found.loops_left]
    return RULE.finding(
        found.sentence(f"left {verb(found.culprits, 'its', 'their')} loop and "),
        ranks=found.culprits,
        where=[*by, *rank_values.in_functions(frames, found.minority[0].rank, code), *found.where("")],
        details=[*early_ends.or_skipped(found.culprits, found.skips), HOW_IT_IS_KNOWN],
        remedy=OF_A_DECISION if by else None,
    )


def _by_desync(together: Sequence[Desync], last: LoopDeparture | None, seen: SeenOfRanks) -> Finding:
    """Ranks that left, by the calls in which their peers wait for them, one desync per group."""
    desync, *elsewhere = together
    everyone = (*desync.minority, *desync.majority)
    left = left_ranks(desync, last, seen)
    asked = [] if left.errors else [*asked_to_stop(seen.code, desync.minority, desync.majority)]
    by_themselves = [
        jump for jump in left.jumps if is_users(jump.file or "")
    ]  # a framework's loop ends as it is asked to
    if desync.ended and not (asked or left.called or left.out_of_loops or by_themselves or left.errors):
        asked = [*framework_requests.where(only_request(seen.code, "stop"), desync.minority)]
    return RULE.finding(
        early_ends.more(left.longer, counted=left.departure is not None)
        + early_ends.sentence(desync, seen.steps)
        + early_ends.waits_elsewhere(elsewhere),
        ranks=left.longer or desync.culprits,
        where=[
            *(left.called or left.out_of_loops),
            *asked,
            *left.lengths,
            *left.jumps,
            *left.continues,
            *witnesses(desync.issued, everyone),
            *(where for other in elsewhere for where in witnesses(other.issued, other.majority)),
            *exception_context.where(left.errors),
        ],
        details=[*details(desync, left, seen.code)],
        remedy=_remedy(desync, left, seen, asked=bool(asked)),
        seq=desync.seq,
        group=desync.group.name or "default",
        calls={str(rank): desync.group.reached(rank) for rank in everyone},
        steps=measured_by_rank(seen.steps),
    )


def _by_programs(graph: WaitForGraph) -> Finding:
    """Ranks that turn once more, in a job with several groups: by what usually follows in their programs."""
    calls = deviating_programs.next_calls(graph) | deviating_programs.waiting_calls(graph)
    others = [rank for rank in sorted(calls) if rank not in graph.ranks]
    return RULE.finding(
        f"{early_ends.turns_again(graph.ranks)} and "
        f"{verb(graph.ranks, 'waits', 'wait')} in {names(calls, graph.ranks)}; {group_ranks(others)} "
        f"{verb(others, 'waits', 'wait')} in {names(calls, others)}",
        ranks=graph.ranks,
        where=witnesses(calls, (*graph.ranks, *others), minority=graph.ranks),
        details=[early_ends.BY_EARLIER_TURNS, *graph.details(), *unplaced(calls, (*graph.ranks, *others))],
        waiting=[*graph.waiting],
    )


def _remedy(desync: Desync, left: LeftRanks, seen: SeenOfRanks, *, asked: bool) -> str | None:
    """What to change, by how the ranks left; None where the rule's own remedy says it."""
    if left.errors:
        return exception_context.REMEDY
    if left.called and early_ends.in_a_loop(seen.exits, desync.ended, seen.code):
        return OF_AN_EXIT
    if left.out_of_loops or asked:
        return OF_A_DECISION
    if left.continues:
        return OF_A_CONTINUE
    if _as_many(desync, seen.steps) and not (left.longer or left.lengths or left.departure):
        return ALL_COME
    return OF_A_DECISION if left.departure is None and _by_a_decision(desync, seen.steps, seen.code) else None


def _by_end(desyncs: Sequence[Desync]) -> Iterator[list[Desync]]:
    """The desyncs of several groups that are the end of the same ranks together, all others alone."""
    together = grouped(
        (desync.minority if desync.ended else (-1 - number,), desync) for number, desync in enumerate(desyncs)
    )
    yield from together.values()


def _by_departure(
    departure: LoopDeparture, code: SourceCode | None, ended: str = "", lost: Iterable[Where] = ()
) -> Finding:
    """Ranks that began their next pass while the others still were in this one: wrong pairs that no rank notices.

    `ended` says how the job came to its end, and `lost` where ranks noticed it, or stood then.
    """
    mixed = f"; {loop_departures.MIXED}" if departure.went_on else ""
    if departure.how is DepartureKind.LEFT:
        remedy = OF_A_JUMP
    elif departure.how is DepartureKind.ENDED and departure.jumps:
        remedy = OF_A_DECISION
    else:
        remedy = loop_departures.LENGTHS
    return RULE.finding(
        f"{loop_departures.sentence(departure)}{mixed}{ended}{tie_note(tied=departure.tied)}",
        ranks=departure.culprits,
        where=[
            *(asked_to_stop(code, departure.ranks, departure.others) if departure.how is DepartureKind.LEFT else ()),
            *loop_departures.where(departure),
            *lost,
        ],
        details=[*early_ends.or_skipped(departure.ranks, loop_departures.skips(departure))],
        remedy=remedy,
        batch=departure.batches,
        lengths=measured_by_rank(departure.lengths),
    )


def _behind(departure: LoopDeparture) -> Iterator[Where]:
    """The calls that the ranks made behind their loop."""
    for rank, call in departure.behind.items():
        if call.place is not None:
            yield Where.at(call.place, rank=rank, note=f"{call.op} #{call.seq}, behind the loop")


def _by_a_decision(desync: Desync, steps: Mapping[int, int], code: SourceCode | None) -> bool:
    """Whether these ranks left a loop over passes: all made as many steps, and no statement leads out of the innermost loop."""
    made = {steps.get(rank) for rank in (*desync.minority, *desync.majority)}
    leads_out = [any(jump.word != "continue" for jump in loop.jumps) for _, loop in loops_left(desync, code)]
    return not desync.ended and len(made) == 1 and None not in made and any(leads_out) and not leads_out[-1]


def _by_exits(failures: Failures, departure: LoopDeparture | None, seen: SeenOfRanks) -> Iterator[Finding]:
    """Ranks that ended with 0 where all that failed says only that a peer was gone.

    Where they had fewer batches in a pass, or left one early, that is the cause, however many passes later the job failed.
    """
    finished, lost = tuple(sorted(ended_well(seen.exits))), failures.lost
    theirs = [one for one in failures.all if one.secondary_error is None and not one.exit.ended_by_launcher]
    if not finished or not lost or theirs:
        return
    after, still = early_ends.steps(finished, seen.steps), early_ends.steps(unique_ranks(lost), seen.steps)
    issued = f" after {after}" if after else ""
    comparison = f", after {still}" if still else ""
    ended = (
        f"{group_ranks(finished)} ended with exit code 0{issued}, and {who(lost)} lost "
        f"{verb(finished, 'it', 'them')} in the middle of a collective{comparison}"
    )
    called = early_ends.left_by(seen.exits, finished)
    left_by = [
        *(called or ways_out.of_training(seen.calls, finished, seen.code)),
        *asked_to_stop(seen.code, finished, unique_ranks(lost)),
    ]
    lost_at = [where for failure in lost for where in failure.where("lost its peer here")]
    if departure is not None and _explains(departure, finished) and not left_by:
        yield _by_departure(departure, seen.code, f"; {ended}", lost_at)
        return
    decided = [*early_ends.out_of_the_same_loop(finished, lost, seen.calls, seen.code)] if not left_by else []
    alone = early_ends.trained_alone(finished, lost, seen.steps, seen.calls)
    in_training = still != after or early_ends.in_training(lost, finished, seen.calls, seen.code)
    remedy: str | None = None if in_training else ALL_COME
    if alone:
        remedy = OF_A_BARE_MODEL
    elif called and early_ends.in_a_loop(seen.exits, finished, seen.code):
        remedy = OF_AN_EXIT
    elif decided:
        remedy = OF_A_DECISION
    yield RULE.finding(
        ended,
        ranks=finished,
        where=[
            *(left_by or decided or early_ends.returned_before(finished, lost, seen.calls, seen.code)),
            *lost_at,
        ],
        details=[f"{group_ranks(finished)} called no forward of a DDP model"] if alone else [],
        remedy=remedy,
        steps=measured_by_rank(seen.steps),
    )


def _at_their_end(hang: Hang, seen: SeenOfRanks) -> Iterator[Finding]:
    """Ranks that are done with their program, and whose process something keeps alive, so that their peers lose no connection."""
    leaving = [one for one in hang.culprits(Activity.EXITING) if one.moves is False and one.place is not None]
    if not leaving or len(leaving) < len(hang.elsewhere):
        return
    ranks = [one.rank for one in leaving]
    keeps = "keeps the process alive"
    alive = [Where.at(one.place, rank=one.rank, note=keeps) for one in leaving if one.place is not None]
    yield RULE.finding(
        f"{group_ranks(ranks)} {verb(ranks, 'has', 'have')} come to the end of the program, and something keeps the process "
        f"alive; {hang.wait_for(leaving)}",
        ranks=ranks,
        where=[*ways_out.of_training(seen.calls, ranks, seen.code), *alive, *hang.where(())],
        remedy=OF_AN_EXIT,
        seconds=hang.seconds,
    )


def _explains(departure: LoopDeparture, finished: Sequence[int]) -> bool:
    return departure.how in (DepartureKind.LEFT, DepartureKind.SHORT, DepartureKind.ENDED) and departure.ranks == tuple(
        finished
    )


def _by_stacks(ended: EndedPeers, exits: PerRank[RankExit] | None, code: SourceCode | None) -> Iterator[Finding]:
    """The few ranks that ended with 0 where all others wait, under no test of the rank.

    Where these wait for all to join, those that ended are at fault, however many they are.
    """
    others = [one.rank for one in ended.waiting]
    called = early_ends.left_by(exits, ended.ended)
    if ended.join or (len(ended.ended) < len(others) and ended.test is None):
        yield RULE.finding(
            f"{group_ranks(ended.ended)} ended with exit code 0 while {group_ranks(others)} "
            f"{verb(others, 'waits', 'wait')} {ended.operations}",
            ranks=ended.ended,
            where=[
                *called,
                *framework_requests.where(exits_of(code, ended.ended, others), ended.ended),
                *(
                    Where.at(
                        one.place,
                        rank=one.rank,
                        note=f"waiting {ended.operations if ended.ask_the_store else f'in {one.operation}'}",
                    )
                    for one in ended.waiting
                    if one.place is not None
                ),
            ],
            remedy=ALL_JOIN if ended.join else OF_AN_EXIT if called else None,
        )


def _as_many(desync: Desync, steps: Mapping[int, int]) -> bool:
    """Whether the ranks that ended had made as many steps as those that wait for them."""
    ended, others = ({steps.get(rank) for rank in side} for side in (desync.minority, desync.majority))
    return bool(desync.ended) and ended == others and len(ended) == 1 and None not in ended
