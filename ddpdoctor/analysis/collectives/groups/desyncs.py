"""Every group's desync, judged again by the turns of loops, the batches drawn and the requests to a framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync, Desyncs, is_in, loops_left
from ddpdoctor.analysis.collectives.groups.desync_by_requests import by_stop_requested
from ddpdoctor.analysis.collectives.groups.group_desync import desyncs_of, of_other_shapes
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.calls_by_pass import left_as_always, made_by_all_before
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture, LoopDepartures
from ddpdoctor.analysis.collectives.loops.loop_passes import runs_to_its_end, started_next_epoch
from ddpdoctor.analysis.collectives.places.callsites import deciding_condition
from ddpdoctor.analysis.collectives.places.rank_tests import Sides, is_rank_test, lets_pass_only, parts
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.crashes.error_patterns import SecondaryError, secondary_error
from ddpdoctor.analysis.crashes.own_ends import ended_well
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit
from ddpdoctor.evidence.source import Condition, SourceCode, place_of
from ddpdoctor.grouping import grouped


def derive(
    timeline: Timeline,
    programs: ProgramComparison,
    code: SourceCode | None,
    exits: PerRank[RankExit] | None,
    calls: PerRank[CollectiveCalls] | None = None,
    departures: LoopDepartures | None = None,
) -> Desyncs:
    """Every group's desync, judged by majority over all of its ranks, the one that began first in front."""
    finished = ended_well(exits)
    lost = {entry.rank for entry in exits or () if _lost_a_peer(entry.value)}
    found = [desync for group in timeline.groups for desync in desyncs_of(group, programs, code, finished, lost)]
    turned = [_by_turns(_by_passes(desync, timeline, calls, code), timeline, code) for desync in found]
    judged = [by_stop_requested(desync, calls, code) for desync in turned]
    last = departures.first if departures is not None else None
    if last is not None and not last.went_on:
        judged = [_by_batches(desync, last, code) for desync in judged]
    judged.sort(key=_began)
    shapes = [one for group in timeline.groups for one in of_other_shapes(group, programs, code, judged)]
    own = {id(one) for one in _one_of_a_cause([*judged, *shapes])}
    found = [*_of_alike_groups((one for one in judged if id(one) in own), programs)]
    alone = {(one.group.name, one.seq) for one in (*found, *(one for one in shapes if id(one) in own))}
    return Desyncs(
        found=tuple(found),
        shapes=tuple(desync for desync in shapes if id(desync) in own),
        follow=frozenset((one.group.name, one.seq) for one in (*judged, *shapes)) - alone,
    )


def _of_alike_groups(found: Iterable[Desync], programs: ProgramComparison) -> Iterator[Desync]:
    """The same, where ranks did the same with one call in several groups with the same part in the job."""
    together = grouped((_call_of(desync, programs) or id(desync), desync) for desync in found)
    for first, *others in together.values():
        yield replace(first, alike=tuple(others)) if others else first


def _call_of(desync: Desync, programs: ProgramComparison) -> object:
    """What tells that ranks of two groups did the same with the same call; None where that is not asked."""
    asked = desync.cause in (Cause.EXTRA, Cause.MISSING, Cause.MISMATCH)
    if desync.tied or not asked or not desync.issued or not desync.group.name:
        return None
    called = (desync.issued[ranks[0]].op for ranks in (desync.minority, desync.majority) if ranks[0] in desync.issued)
    label = programs.label(desync.minority[0], desync.group.group_sequences.group.name)
    return desync.cause, desync.seq, label, *called


def _one_of_a_cause(found: Sequence[Desync]) -> Iterator[Desync]:
    """The first desync of each few ranks, and all that left: one call too many, or less, makes a rank diverge in every group.

    Ranks that differ in one group together have one cause, also where another group shows only some of them. Of two sides of
    which no majority shows, one that had diverged before is at fault.
    """
    first: dict[tuple[int, ...], Desync] = {}
    for desync in found:
        known = first.get(desync.more_turns or desync.minority)
        if not desync.tied and (known is None or _before(desync, known)):
            first[desync.more_turns or desync.minority] = desync
    for desync in found:
        sides = (desync.minority, desync.majority) if desync.tied else (desync.more_turns or desync.minority,)
        causes = [first[side] for side in sides if side in first and first[side] is not desync]
        among_more = any({*side} < {*ranks} for side in sides for ranks in first)
        explained = among_more or any(not desync.tied or _before(cause, desync) for cause in causes)
        if (desync.cause is Cause.LEFT and not desync.more_turns) or not explained:
            yield desync


def _before(one: Desync, other: Desync) -> bool:
    """Whether the ranks at fault in the first made that call before the one of the other, by their own records."""
    both = [rank for rank in one.minority if rank in one.issued and rank in other.issued]
    if not both:
        return _began(one) < _began(other)
    return all(one.issued[rank].entry < other.issued[rank].entry for rank in both)


def _lost_a_peer(ending: RankExit) -> bool:
    return ending.error is not None and secondary_error(ending.error.message) is SecondaryError.PEER_GONE


def _began(desync: Desync) -> int:
    return min((issued.created_ns for issued in desync.issued.values()), default=0)


def _by_passes(
    desync: Desync, timeline: Timeline, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> Desync:
    """Of ranks past a loop and ranks in it: whether these make one turn more of it, or have reached it again.

    Then they have left out the call that the others make behind it. Where it is not known, and no majority shows who deviates,
    nobody is said to have left the loop early.
    """
    within = desync.comparison.relation is Relation.WITHIN
    if not desync.comparison.again or not desync.issued or desync.offset is not None:
        return desync
    again, there = (desync.minority, desync.majority) if within else (desync.majority, desync.minority)
    came_again = _came_again(desync, again, there, timeline, calls, code)
    if came_again is None and desync.group.name:
        return desync
    if came_again is None:
        return _of_passes_unknown(desync, again, there, calls, code)
    if not came_again:
        return replace(desync, comparison=replace(desync.comparison, again=False))
    # in other groups than that of all ranks, the programs of ranks in other groups have told which of two deviates
    tied = desync.tied or (len(desync.minority) == len(desync.majority) and not desync.group.name)
    lacking = within or tied
    condition = deciding_condition(desync.issued[there[0]].stack, code)
    return replace(
        desync,
        cause=Cause.MISSING if lacking else Cause.EXTRA,
        minority=again if lacking else there,
        majority=there if lacking else again,
        tied=tied,
        comparison=Comparison(
            Relation.UNCONDITIONAL if lacking else Relation.CONDITIONAL,
            condition=condition and condition[0],
            frame=condition and condition[1],
        ),
    )


def _came_again(
    desync: Desync,
    again: Sequence[int],
    there: Sequence[int],
    timeline: Timeline,
    calls: PerRank[CollectiveCalls] | None,
    code: SourceCode | None,
) -> bool | None:
    """Whether the ranks in the loop have reached it `again`, and left out the call behind it in which those `there` wait.

    False where they make a turn more of the same pass; None where nothing shows which of both it is.
    """
    known = None if desync.group.name else started_next_epoch(calls, again, there, desync.seq)
    if known is not None:
        return known
    loop = desync.comparison.loop
    as_always = left_as_always(timeline, desync.group, desync.seq, loop, code, again, there)
    return True if as_always or (runs_to_its_end(loop) and not _handled_an_error(calls, there, desync.seq)) else None


def _of_passes_unknown(
    desync: Desync,
    again: tuple[int, ...],
    there: tuple[int, ...],
    calls: PerRank[CollectiveCalls] | None,
    code: SourceCode | None,
) -> Desync:
    """Where nothing shows which pass the ranks in the loop are in: by the test above their call, or without a culprit."""
    guard = _guard(desync.issued[again[0]].program, code, (again, there))
    if guard is not None:
        passed = len(there) < len(again)  # the few that passed over the call are at fault, and not all others
        relation = Relation.UNCONDITIONAL if passed else Relation.CONDITIONAL
        return replace(
            desync,
            cause=Cause.MISSING if passed else Cause.EXTRA,
            minority=there if passed else again,
            majority=again if passed else there,
            tied=False,
            comparison=Comparison(relation, condition=guard[0], frame=guard[1]),
        )
    left = desync.cause is Cause.LEFT and not _handled_an_error(calls, there, desync.seq)
    if left and len(again) == len(there):
        seen = replace(desync.comparison, relation=Relation.WITHIN)
        return replace(desync, cause=Cause.EXTRA, minority=again, majority=there, tied=True, comparison=seen)
    return desync


def _by_turns(desync: Desync, timeline: Timeline, code: SourceCode | None) -> Desync:
    """Of a few ranks in a loop that most are past: a call that all made in the turns before is no call too many.

    The few make more turns of the loop, unless a test of the rank lets those past it out of it, and nobody else.
    """
    comparison = desync.comparison
    within = desync.cause is Cause.EXTRA and comparison.relation is Relation.WITHIN and comparison.loop is not None
    if not within or comparison.again or desync.offset is not None or desync.ended or desync.request is not None:
        return desync
    programs = {desync.issued[rank].program for rank in desync.minority}
    if not made_by_all_before(timeline, desync.group, programs, dict.fromkeys(desync.majority, desync.seq - 1)):
        return desync
    left = replace(
        desync,
        cause=Cause.LEFT,
        minority=desync.majority,
        majority=desync.minority,
        tied=False,
        comparison=replace(comparison, relation=Relation.PAST),
    )
    jumps = [jump for _, loop in loops_left(left, code) for jump in loop.jumps if jump.word != "continue"]
    by_rank = any(lets_pass_only(jump, left.minority, left.majority) for jump in jumps)
    return left if by_rank else replace(left, more_turns=desync.minority)


def _by_batches(desync: Desync, last: LoopDeparture, code: SourceCode | None) -> Desync:
    """Whether the ranks past a loop left it: they drew fewer batches than a pass has, or than the others."""
    if desync.group.name or desync.offset is not None or not desync.issued:
        return desync
    past = {Relation.PAST: desync.minority, Relation.WITHIN: desync.majority}.get(desync.comparison.relation)
    if past != last.ranks and not _others_go_on(last, desync, code):
        return desync
    if any(is_in(last.loop, desync.issued[rank].program, code) for rank in last.ranks if rank in desync.issued):
        return desync  # a call further down in the same turn of the loop
    comparison = replace(desync.comparison, relation=Relation.PAST)
    return replace(
        desync, cause=Cause.LEFT, minority=last.ranks, majority=last.others, tied=last.tied, comparison=comparison
    )


def _others_go_on(last: LoopDeparture, desync: Desync, code: SourceCode | None) -> bool:
    """Whether all ranks that drew more batches are in the loop over them: then the others are past it, wherever they are."""
    sides = {frozenset(desync.minority), frozenset(desync.majority)}
    return (
        last.how in (DepartureKind.SHORT, DepartureKind.LEFT)
        and sides == {frozenset(last.ranks), frozenset(last.others)}
        and all(rank in desync.issued and is_in(last.loop, desync.issued[rank].program, code) for rank in last.others)
    )


def _guard(program: Sequence[Frame], code: SourceCode | None, sides: Sides) -> tuple[Condition, Frame] | None:
    """A test of the rank by which some ranks pass over the rest of a loop before the innermost line in one, and that line.

    `sides` are the ranks at that line, and those that may have passed over it.
    """
    for frame in reversed(program):
        place = place_of(code, frame)
        if place is not None and place.loops:
            jumps = (jump for loop in reversed(place.loops) for jump in loop.jumps)
            before = (jump for jump in jumps if jump.word != "return" and jump.line < frame.line and parts(jump, sides))
            found = next((jump for jump in before if is_rank_test(jump.test, by_rank=jump.by_rank)), None)
            if found is None:
                return None
            return Condition(line=found.line, test=found.test, branch=1, by_rank=found.by_rank), frame
    return None


def _handled_an_error(calls: PerRank[CollectiveCalls] | None, ranks: Sequence[int], seq: int) -> bool:
    """Whether one of these ranks made call `seq` while it handled an error: then that led it out of its loop."""
    return any(one.seq == seq for entry in calls or () if entry.rank in ranks for one in entry.value.handled)
