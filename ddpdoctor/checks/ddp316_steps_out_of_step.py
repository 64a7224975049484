"""A rank's Nth collective belongs to another step than its peers': every gradient since is averaged with a stranger's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from ddpdoctor.analysis.collectives.first_divergence import FirstDivergence
from ddpdoctor.analysis.collectives.groups.desync import Cause, Desyncs, continues, loops_left, skips, turns_cut_short
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.iteration_skew import (
    Iterations,
    IterationSkew,
    OtherForward,
    UnevenAccumulation,
)
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture
from ddpdoctor.analysis.collectives.loops.loop_passes import SkippedBatch
from ddpdoctor.analysis.collectives.loops.unreduced_steps import UnreducedSteps
from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.conditions_above import rank_test
from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.analysis.collectives.stacks.stack_desync import HOW_IT_IS_KNOWN
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.ranks import CollectiveCall
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.grouping import grouped
from ddpdoctor.messages import loop_departures, rank_values, ways_out
from ddpdoctor.messages.accumulation import decides_the_reduction
from ddpdoctor.messages.calls_between_iterations import above_call, called_by_some
from ddpdoctor.messages.collectives import condition_note, names, witnesses
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks, measured_by_rank, verb

RULE = Rule(
    code="DDP316",
    name="steps-out-of-step",
    summary="ranks are out of step: collectives of different training steps were paired",
    severity=Severity.FAIL,
    shown_by="the dumps pair collectives of different steps, and one rank made a call more or less before",
    remedy="skip a batch on every rank or on none (all_reduce the decision), never swallow an exception between forward and "
    "step, and accumulate over equally many batches everywhere; what was trained since is not to be trusted",
    explains=("DDP301", "DDP302", "DDP306", "DDP307", "DDP314", "DDP318", "DDP408", "DDP503", "DDP504", "DDP510"),
)

OF_A_CALL = (
    "make this call on every rank or on none (all_reduce what decides it), and give every rank equally many batches before it; "
    "what was trained since is not to be trusted"
)
NO_ITERATIONS = "no record of forwards, and the stacks do not show ranks past a loop that others are in"
SHOWN_SKIPS = 3
OF_AN_ACCUMULATION = (
    "accumulate over equally many batches on every rank: leave `no_sync` with the same forward everywhere, "
    "and with the last forward before each optimizer step"
)
OF_UNREDUCED_STEPS = (
    "call the DDP model on every rank, not the module inside (`model.module`), and backward on a loss that is computed from its "
    "output and not detached"
)
OF_A_FORWARD = (
    "call each model equally often and in the same order on every rank: all_reduce what decides whether a step is made"
)


def check(
    iterations: Iterations | None,
    first: FirstDivergence | None,
    timeline: Timeline | None,
    desyncs: Desyncs | None,
    code: SourceCode | None,
    stack_desync: StackDesync | None,
) -> Iterator[Finding]:
    """The first iteration that did not begin after the same number of collectives on every rank.

    Before all, where the ranks diverged: the first forward whose gradients some ranks reduced, and others did not.
    Where gloo's words tell that calls were mixed up and neither this nor a recorder shows which: the first iteration that
    a rank began without a call that its peers made before, or the first forward from another line. Where a rank left its
    loop early: the first forward that it made in a later turn of the loop than its peers. Where the batches tell which rank
    passed over one: that batch. Ranks that left a loop are DDP306, unless stacks show that they made as many turns of it.
    """
    if stack_desync is not None and stack_desync.passed_over:
        yield _by_stacks(stack_desync)
    if iterations is None and first is None and stack_desync is None:
        raise SkipCheck(NO_ITERATIONS)
    match first:
        case FirstDivergence(UnreducedSteps() as unreduced):
            yield _by_steps(unreduced, code)
        case FirstDivergence(UnevenAccumulation() as uneven):
            yield _by_accumulation(uneven, code)
        case FirstDivergence(LoopDeparture(how=DepartureKind.SKIPPED | DepartureKind.IRREGULAR) as departure):
            yield _by_departure(departure)
        case FirstDivergence(IterationSkew() as skew):
            yield _by_counts(skew, timeline, code)
        case FirstDivergence(OtherForward() as forward):
            yield _by_lines(forward, code)
        case FirstDivergence(SkippedBatch() as skipped) if desyncs is not None:
            yield _by_turns(skipped, desyncs, code)
        case None if iterations is not None and not iterations.lengths:
            yield from _by_calls(iterations, desyncs, code)
    uneven_steps = first is not None and isinstance(first.by, UnevenAccumulation)
    if iterations is not None and iterations.lengths and not uneven_steps:
        yield _by_lengths(iterations.lengths, code)


def _by_steps(unreduced: UnreducedSteps, code: SourceCode | None) -> Finding:
    """Ranks that trained without their peers, and ended or came to another call."""
    ranks, waiting, made = unreduced.ranks, unreduced.waiting, unreduced.steps
    others = [*waiting]
    theirs = max(made[rank] for rank in waiting)
    alone = _span(made[rank] - theirs for rank in ranks)
    without = [rank for rank in ranks if rank not in unreduced.places]
    end = f" before {names(unreduced.met, ranks)}" if unreduced.met else " and ended"
    another = (
        f"{group_ranks(without)} called no forward of a DDP model for these steps: {verb(without, 'it', 'they')} trained another "
        "one, such as the module inside (`model.module`)"
    )
    return RULE.finding(
        f"{group_ranks(ranks)} made {_span(made[rank] for rank in ranks)} optimizer steps{end}, {alone} of them without a "
        f"reduction of gradients; {group_ranks(others)} {verb(others, 'waits', 'wait')} in {names(waiting, others)} after "
        f"{_span(made[rank] for rank in waiting)}",
        ranks=ranks,
        where=[
            *(
                Where.at(place, rank=rank, note="the last forward of the DDP model; the backward reduced no gradients")
                for rank, place in sorted(unreduced.places.items())
            ),
            *(rank_values.where(waiting, others, ranks[0], code) if without else ()),
            *witnesses(unreduced.met, ranks),
            *witnesses(waiting, others),
        ],
        details=[another] if without else [],
        remedy=OF_UNREDUCED_STEPS,
        steps=measured_by_rank(made),
    )


def _span(counts: Iterable[int]) -> str:
    """`9`, or `8 to 9` where the counts differ."""
    each = sorted(counts)
    return f"{each[0]}" if each[0] == each[-1] else f"{each[0]} to {each[-1]}"


def _by_stacks(found: StackDesync) -> Finding:
    loop = found.comparison.loop
    frame = found.comparison.frame
    assert loop is not None
    by_turn = grouped((found.turns[activity.rank], activity.rank) for activity in found.majority)
    stand = " and ".join(f"{group_ranks(ranks)} at `{loop.counter}` {turn}" for turn, ranks in by_turn.items())
    least = min(found.turns[activity.rank] for activity in found.minority)
    ended = found.sentence(f"ended {verb(found.culprits, 'its', 'their')} loop at `{loop.counter}` {least} and ")
    return RULE.finding(
        f"{ended}, {stand}: as many turns, and a call less in one of them",
        ranks=found.culprits,
        where=[
            *(
                Where.at(frame.at_line(jump.line), rank=None, note=f"`continue` if `{jump.test}`")
                for jump in loop.jumps[:SHOWN_SKIPS]
                if frame is not None and jump.word == "continue"
            ),
            *found.where(""),
        ],
        details=(HOW_IT_IS_KNOWN,),
        turns=measured_by_rank(found.turns),
    )


def _by_departure(departure: LoopDeparture) -> Finding:
    return RULE.finding(
        f"{loop_departures.sentence(departure)}; {loop_departures.MIXED}",
        ranks=departure.culprits,
        where=loop_departures.where(departure),
        batch=departure.batches,
        forward=departure.forwards + (departure.how is DepartureKind.SKIPPED)
        if departure.forwards is not None
        else None,
    )


def _by_accumulation(uneven: UnevenAccumulation, code: SourceCode | None) -> Finding:
    sides = uneven.sides
    reduced = [rank for rank, one in uneven.reduced.items() if one]
    without = [rank for rank, one in uneven.reduced.items() if not one]
    stepped = (
        f"; {group_ranks(uneven.stepped)} then stepped with {verb(uneven.stepped, 'its', 'their')} own gradients"
        if uneven.stepped
        else ""
    )
    return RULE.finding(
        f"{group_ranks(without)} made forward {uneven.number} under `no_sync`, and {group_ranks(reduced)} reduced "
        f"{verb(reduced, 'its', 'their')} gradients{stepped}{tie_note(tied=sides.tied)}",
        ranks=sides.minority,
        where=[
            Where.at(
                uneven.places[rank],
                rank=rank,
                note=f"forward {uneven.number}, {'with' if uneven.reduced[rank] else 'without'} a reduction of gradients",
            )
            for rank in dict.fromkeys((*sides.minority, *uneven.reduced))
        ]
        + decides_the_reduction(code),
        remedy=OF_AN_ACCUMULATION,
        forward=uneven.number,
        reduced=measured_by_rank(uneven.reduced),
    )


def _by_lengths(lengths: Mapping[int, int], code: SourceCode | None) -> Finding:
    sides = vote(lengths)
    said = " and ".join(f"{lengths[side[0]]} on {group_ranks(side)}" for side in reversed(sides.sides))
    return RULE.finding(
        f"ranks accumulate over different numbers of forwards: {said}; each step is still reduced once on all of them",
        ranks=sides.minority,
        where=decides_the_reduction(code),
        severity=Severity.INFO,
        remedy="accumulate over equally many batches on every rank, unless these are larger on some: weigh the losses then",
        forwards=measured_by_rank(lengths),
    )


def _by_counts(skew: IterationSkew, timeline: Timeline | None, code: SourceCode | None) -> Finding:
    sides, seq = skew.sides, skew.seq
    everyone = (*sides.minority, *sides.majority)
    stack_desync: Mapping[int, IssuedCall] = {}
    if timeline is not None:
        waits = {rank: issued for rank in seq if (issued := timeline.waiting(rank)) is not None}
        stack_desync = waits or _diverged(timeline, everyone, skew.equal)
    called = [rank for rank in everyone if rank in skew.own]
    alone = sides.tied and any(_under_a_rank_test(rank, skew.own[rank], timeline, code) for rank in called)
    return RULE.finding(
        _said_of_calls(skew, tied=sides.tied and not alone) if called else _said_of_counts(skew),
        ranks=called if alone else sides.minority,
        where=[
            *(called_by_some(rank, skew.own[rank], timeline, code) for rank in called if skew.own[rank].place),
            *ways_out.past_a_turn(skew.cut_short, skew.fewer),
            *(() if called else _backwards_by_rank(code)),
            *(where for where in witnesses(stack_desync, everyone) if where.rank not in called),
        ],
        remedy=OF_A_CALL if called else None,
        iteration=skew.iteration,
        collectives=measured_by_rank(seq),
    )


def _backwards_by_rank(code: SourceCode | None) -> Iterator[Where]:
    """The backwards that not every rank makes: without one, a forward has no reduction."""
    for asked in rank_requests(code, "backward"):
        yield Where.at(
            asked.frame, rank=None, note=f"the backward, {condition_text(asked.condition, asked.frame.file)}"
        )


def _said_of_counts(skew: IterationSkew) -> str:
    by_count = grouped(
        ((skew.seq[rank], rank in skew.before), rank) for rank in (*skew.sides.minority, *skew.sides.majority)
    )
    said = " and ".join(f"{group_ranks(ranks)} issued {count}" for (count, _), ranks in by_count.items())
    return f"collective counts differ at the start of iteration {skew.iteration}: {said}"


def _said_of_calls(skew: IterationSkew, *, tied: bool) -> str:
    called = group_ranks([*skew.own])
    others = group_ranks([rank for rank in skew.seq if rank not in skew.own])
    names = " or ".join(dict.fromkeys(f"{call.op} #{call.seq}" for call in skew.own.values()))
    began = f"began iteration {skew.iteration}"
    stand_there = {*skew.own} <= {*skew.before}
    if {*skew.sides.minority} <= {*skew.own}:
        told = (
            f"{called} called {names} where {others} {began}"
            if stand_there
            else f"{called} called {names} before iteration {skew.iteration}, and {others} did not"
        )
    else:
        told = (
            f"{others} {began} where {called} called {names}"
            if stand_there
            else f"{others} {began} without {names} that {called} called before it"
        )
    return f"{told}{tie_note(tied=tied)}"


def _under_a_rank_test(rank: int, call: CollectiveCall, timeline: Timeline | None, code: SourceCode | None) -> bool:
    """Whether this call is under a test of the rank: then it is the call that is wrong, of two ranks too."""
    stack = above_call(rank, call, timeline) or ((call.place,) if call.place is not None else ())
    return rank_test(stack, code) is not None


def _by_calls(iterations: Iterations, desyncs: Desyncs | None, code: SourceCode | None) -> Iterator[Finding]:
    """Where two calls met that are no one's too many: the ranks that were an iteration further than the others."""
    for desync in desyncs.of(Cause.MISMATCH) if desyncs is not None else ():
        at = {rank: iterations.at(rank, desync.seq) for rank in desync.issued}
        known = {number for number in at.values() if number is not None}
        if desync.group.name or None in at.values() or len(known) != 2:
            continue
        further = max(known)
        ahead = [rank for rank, number in at.items() if number == further]
        if set(ahead) in ({*desync.minority}, {*desync.majority}):
            behind = [rank for rank in at if rank not in ahead]
            short = desync.tied and iterations.cut_short(ahead, behind, min(known), desync.seq)
            tied = tie_note(tied=desync.tied and not short)
            over = turns_cut_short(desync, ahead, behind, code) or continues(desync, ahead, code)
            yield RULE.finding(
                f"{group_ranks(ahead)} began iteration {further} without {names(desync.issued, behind)} that "
                f"{group_ranks(behind)} made in iteration {min(known)}{tied}",
                ranks=ahead if short else desync.culprits,
                where=[
                    *([*ways_out.past_a_turn(over, ahead)] or rank_values.where(desync.issued, behind, ahead[0], code)),
                    *witnesses(desync.issued, (*desync.minority, *desync.majority)),
                ],
                iteration=further,
                seq=desync.seq,
            )


def _by_lines(forward: OtherForward, code: SourceCode | None) -> Finding:
    sides = forward.sides
    majority, minority, *_ = sides.sides
    comparison = compare(forward.programs[minority[0]], forward.programs[majority[0]], code, (minority, majority))
    test = condition_note(comparison)
    by_place = grouped((forward.places[rank], rank) for rank in (*sides.minority, *sides.majority))
    said = " and ".join(
        f"{group_ranks(ranks)} in {place.function} ({PurePath(place.file).name}:{place.line})"
        for place, ranks in by_place.items()
    )
    return RULE.finding(
        f"forward {forward.number} was not the same on every rank: {said}; gradients of different computations were "
        "reduced together",
        ranks=sides.minority,
        where=[
            *(_of_a_loop(forward, comparison, code) if not test else ()),
            *(
                Where.at(
                    place, rank=rank, note=f"forward {forward.number}{f', {test}' if test and rank in minority else ''}"
                )
                for place, ranks in by_place.items()
                for rank in ranks
            ),
        ],
        remedy=OF_A_FORWARD,
        forward=forward.number,
    )


def _of_a_loop(forward: OtherForward, comparison: Comparison, code: SourceCode | None) -> list[Where]:
    """What says how often a loop turns that one side is in: values that depend on the rank, else the head of that loop."""
    majority, minority, *_ = forward.sides.sides
    inside = majority if comparison.relation is Relation.PAST else minority
    values = [*rank_values.in_functions(forward.programs[inside[0]], minority[0], code)]
    loop, frame = comparison.loop, comparison.frame
    if values or loop is None or frame is None or comparison.relation not in (Relation.PAST, Relation.WITHIN):
        return values
    return [Where.at(frame.at_line(loop.line), rank=minority[0], note=f"the loop `{loop.head}`")]


def _by_turns(skipped: SkippedBatch, desyncs: Desyncs, code: SourceCode | None) -> Finding:
    """Ranks that left their loop early, as they had passed over a batch."""
    left = next(desync for desync in desyncs.of(Cause.LEFT) if desync.minority == skipped.ahead)
    behind = [rank for rank in skipped.turns if rank not in skipped.ahead]
    by_turn = grouped((skipped.turns[rank], rank) for rank in (*skipped.ahead, *behind))
    stood = " and ".join(f"{turn} on {group_ranks(ranks)}" for turn, ranks in by_turn.items())
    turns = [*ways_out.of_loops(loops_left(left, code), skipped.ahead, words=("continue",))]
    lines = skips(left, code) if not turns else []
    return RULE.finding(
        f"{group_ranks(skipped.ahead)} passed over a batch before forward {skipped.forward}, where the loop stood at "
        f"{stood}; since then gradients are averaged with those of other steps",
        ranks=skipped.sides.minority,
        where=[*turns, *witnesses(left.issued, (*left.minority, *left.majority))],
        details=[f"the loop has a `continue` at {' and '.join(lines)}"] if lines else [],
        forward=skipped.forward,
        turns=measured_by_rank(skipped.turns),
    )


def _diverged(timeline: Timeline, ranks: Sequence[int], equal: int) -> Mapping[int, IssuedCall]:
    """The first calls after number `equal` that these ranks made from different lines; none where they never did."""
    for group in timeline.groups:
        if group.name:
            continue  # iterations are counted against the default group
        for seq in range(equal + 1, group.top + 1):
            issued = {rank: call for rank in ranks if (call := timeline.issued(group, rank, seq)) is not None}
            if len({call.stack for call in issued.values()}) > 1:
                return issued
    return {}
