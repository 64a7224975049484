"""The desync of one process group, and which of its ranks differ: by majority, stacks and programs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace

from typing_extensions import assert_never

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync, cause_of
from ddpdoctor.analysis.collectives.groups.desync_by_requests import by_calls_requested
from ddpdoctor.analysis.collectives.groups.final_counts import final_counts
from ddpdoctor.analysis.collectives.loops.calls_by_pass import a_turn_further, made_by_all_before
from ddpdoctor.analysis.collectives.places.callsites import compare, seen_from_minority
from ddpdoctor.analysis.collectives.places.conditions_above import callers, condition_over, rank_test, shared_rank_test
from ddpdoctor.analysis.collectives.places.rank_tests import names_a_rank, ranks_under
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.analysis.collectives.programs.call_order import (
    LOOKED_AHEAD,
    agree,
    operations_from,
    operations_until,
    reordered,
    skipped,
)
from ddpdoctor.analysis.collectives.programs.deviating_side import Deviation, decide
from ddpdoctor.analysis.collectives.programs.first_deviation import FirstDeviations
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.programs.usual_course import Course
from ddpdoctor.analysis.collectives.recorders.matching import MismatchKind, agreed_shape, dtypes, operation
from ddpdoctor.analysis.collectives.recorders.multithreaded import called_in_turns, has_both, made_by_a_thread
from ddpdoctor.analysis.collectives.recorders.sequence_offset import (
    SequenceOffset,
    has_constant_period,
    sequence_offset_of,
)
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Mismatch, Timeline
from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence.frames import only_users
from ddpdoctor.evidence.recorder import Call
from ddpdoctor.evidence.source import Condition, SourceCode


def desyncs_of(
    group: GroupTimeline, programs: ProgramComparison, code: SourceCode | None, finished: set[int], lost: set[int]
) -> Iterator[Desync]:
    """The desyncs of one group; `finished` are the ranks that exited with code 0, `lost` those that failed as a peer had gone."""
    mismatch = group.mismatches.get(MismatchKind.OPERATION) or group.mismatches.get(MismatchKind.SHAPE)
    if mismatch is not None and _is_race(group, programs.timeline, mismatch):
        yield _from_race(group, mismatch)
        return
    for mismatch in sorted(group.mismatches.values(), key=lambda one: one.seq):
        desync = _from_mismatch(group, mismatch, programs, code)
        if mismatch.kind is MismatchKind.OPERATION or desync.cause is not Cause.MISMATCH:
            yield desync
            return  # of two shapes: two calls that share a name, and not one call with two shapes
    gone = finished & {*group.members}
    waiting = {rank: issued for rank, issued in group.open.items() if rank not in gone}
    if not waiting:  # a few called once more, or a call that not all ranks make, and their peers had gone
        last = {rank: group.last[rank] for rank in sorted(lost) if rank in group.last}
        tested = bool(last) and all(rank_test(issued.program, code) is not None for issued in last.values())
        waiting = last if tested or 2 * len(gone) >= len(group.members) else {}
    short = {rank for rank in gone if group.reached(rank) < max((issued.seq for issued in waiting.values()), default=0)}
    if short and waiting:
        yield _ended(group, short, waiting, programs.timeline, code)
    counts = final_counts(group, programs.timeline, finished)
    if not waiting and len({*counts.values()}) > 1:
        yield _uneven(group, counts)


def of_other_shapes(
    group: GroupTimeline, programs: ProgramComparison, code: SourceCode | None, known: Iterable[Desync]
) -> Iterator[Desync]:
    """The call of this group to which ranks gave other shapes, and that does not end; not where it is one of those `known`."""
    mismatch = group.mismatches.get(MismatchKind.SHAPE)
    if mismatch is None or all(issued.done for issued in mismatch.issued.values()):
        return
    if not any(one.group is group and one.seq <= mismatch.seq for one in known):
        yield _from_mismatch(group, mismatch, programs, code)


def _is_race(group: GroupTimeline, timeline: Timeline, mismatch: Mismatch) -> bool:
    """Whether ranks diverged in calls of different threads, which each rank makes from both, or which differ in shape alone."""
    records = timeline.call_index.records
    by_a_thread = {made_by_a_thread(records[rank], issued.entry) for rank, issued in mismatch.issued.items()}
    if len(by_a_thread) < 2:
        return False
    its = group.group_sequences.group.name
    return (
        mismatch.kind is MismatchKind.SHAPE
        or all(has_both(records[rank], its) for rank in mismatch.issued)
        or any(called_in_turns(records[rank], its) for rank in group.recorded)
    )


def _from_race(group: GroupTimeline, mismatch: Mismatch) -> Desync:
    """No rank is at fault: all do the same, and what they met in is chance."""
    return Desync(
        cause=Cause.RACE,
        group=group,
        seq=mismatch.seq,
        minority=(),
        majority=tuple(sorted(mismatch.issued)),
        tied=False,
        issued=mismatch.issued,
        comparison=Comparison(Relation.UNKNOWN),
    )


def _ended(
    group: GroupTimeline,
    short: set[int],
    waiting: Mapping[int, IssuedCall],
    timeline: Timeline,
    code: SourceCode | None,
) -> Desync:
    """Some ranks ended with exit code 0 while others wait: whoever is the minority of these is at fault.

    Where these make a call of every turn once more, it is the turns that differ, and not the calls; but not where a test of the
    rank and of something else led those that ended past the call, as `if rank == 2 and epoch > 0: return`.
    A rank test above the call that all wait in tells more: then it is that call that not all ranks make.
    What a rank did that lost its peers, and its recorder with them, is not known, and counts for neither side, unless the test
    says which ranks make the call.
    """
    programs = {issued.program for issued in waiting.values()}
    before = {rank: group.reached(rank) for rank in short}
    made_before = made_by_all_before(timeline, group, programs, before)
    tested = shared_rank_test((issued.program for issued in waiting.values()), code)
    if made_before and not (tested is not None and _ended_by(tested[0], waiting, short, group)):
        tested = None
    few_wait = callers(tested, waiting, short, group.members).few and not (made_before and tested is not None)
    turns = few_wait and tested is None and made_before and _always_made(waiting, code)
    seq = min(issued.seq for issued in waiting.values())
    relation = Relation.CONDITIONAL if few_wait else Relation.UNCONDITIONAL
    if turns or (tested is None and not few_wait):
        cause = Cause.LEFT
    elif few_wait:
        cause = Cause.EXTRA
    else:
        cause = Cause.MISSING
    return Desync(
        cause=cause,
        group=group,
        seq=seq,
        minority=tuple(sorted(waiting if few_wait and not turns else short)),
        majority=tuple(sorted(short if few_wait and not turns else waiting)),
        tied=False,
        issued=waiting,
        comparison=(
            Comparison(relation, condition=tested[0], frame=tested[1])
            if tested is not None
            else Comparison(Relation.UNKNOWN)
        ),
        ended=tuple(sorted(short)),
        more_turns=tuple(sorted(waiting)) if turns else (),
    )


def _ended_by(test: Condition, waiting: Mapping[int, IssuedCall], ended: set[int], group: GroupTimeline) -> bool:
    """Whether this test names exactly the ranks that ended, among others of its parts, and its other branch leads to the call."""
    if test.holds or names_a_rank(test.test):
        return False
    through = ranks_under(test, group.members)
    return {*waiting} <= {*through} and ended.isdisjoint(through)


def _always_made(waiting: Mapping[int, IssuedCall], code: SourceCode | None) -> bool:
    """Whether no condition is above the call that these ranks wait in: every turn of its loop makes it."""
    return code is not None and all(condition_over(issued.program, code) is None for issued in waiting.values())


def _uneven(group: GroupTimeline, counts: Mapping[int, int]) -> Desync:
    """All ended with exit code 0, and some had called more than others: a call had no partner, or one of another point."""
    sides = vote(counts)
    minority = (
        sides.minority if not sides.tied else tuple(rank for rank in counts if counts[rank] == min(counts.values()))
    )
    majority = tuple(rank for rank in sorted(counts) if rank not in minority)
    fewer = max(counts[rank] for rank in minority) < min(counts[rank] for rank in majority)
    return Desync(
        cause=Cause.MISSING if fewer else Cause.EXTRA,
        group=group,
        seq=min(counts.values()) + 1,
        minority=minority,
        majority=majority,
        tied=sides.tied,
        issued={rank: group.last[rank] for rank in sorted(counts) if rank in group.last},
        comparison=Comparison(Relation.UNKNOWN),
        ended=tuple(sorted(counts)),
        counts=counts,
    )


def _from_mismatch(
    group: GroupTimeline, mismatch: Mismatch, programs: ProgramComparison, code: SourceCode | None
) -> Desync:
    timeline = programs.timeline
    called = {rank: (issued.op, _compared(issued.calls, mismatch.kind)) for rank, issued in mismatch.issued.items()}
    sides = vote(called)
    deviation = _by_programs(group, mismatch, programs, called, tied=sides.tied)
    tied = sides.tied and deviation is None
    minority, majority = _two_sides(called, sides, deviation)
    stacks = {rank: issued.program for rank, issued in mismatch.issued.items()}
    ours, theirs = mismatch.issued[minority[0]], mismatch.issued[majority[0]]
    pairs = ((ours, theirs), (theirs, ours))
    further = {mine.rank for mine, other in pairs if a_turn_further(timeline, group, mine, other)}
    minority, majority, comparison = seen_from_minority(minority, majority, stacks, code, tied=tied, further=further)
    offset = sequence_offset_of(group.group_sequences, minority[0], majority, mismatch.seq)
    if offset is not None:
        return _from_offset(group, timeline, code, mismatch, minority, majority, offset, tied=tied)
    cause = cause_of(comparison, mismatch.issued[minority[0]].op, mismatch.issued[majority[0]].op)
    by_calls = comparison.relation in (Relation.UNKNOWN, Relation.SAME, Relation.ELSEWHERE)
    turns_again = False
    if cause is Cause.MISMATCH and (deviation is not None or by_calls):
        cause = _cause_by_calls(group, timeline, mismatch.seq, (minority[0], majority[0]), deviation)
        if cause is Cause.MISMATCH and not tied:
            ours, theirs = mismatch.issued[minority[0]], mismatch.issued[majority[0]]
            cause, turns_again = _by_course(programs, ours, theirs)
    if (
        cause is Cause.LEFT
        and not turns_again
        and (
            _stays(timeline, group, mismatch, minority[0], majority[0])
            or (tied and _as_always(group, minority[0], mismatch.seq))
        )
    ):
        cause = Cause.EXTRA
    found = Desync(
        cause=cause,
        group=group,
        seq=mismatch.seq,
        minority=minority,
        majority=majority,
        tied=tied and cause is not Cause.LEFT and not (comparison.decides or comparison.is_exempted),
        issued=mismatch.issued,
        comparison=comparison,
    )
    if turns_again:
        return replace(found, minority=majority, majority=minority, more_turns=minority)
    below_one_line = only_users(stacks[minority[0]]) == only_users(stacks[majority[0]])
    unclear = (by_calls and cause is Cause.MISMATCH) or (found.tied and below_one_line)
    return by_calls_requested(found, code) if unclear else found


def _two_sides(
    called: Mapping[int, Hashable], sides: Vote, deviation: Deviation | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The minority and the other ranks: by their number, else by ranks with the same part, else the lowest rank's side first."""
    if not sides.tied:
        return sides.minority, sides.majority
    lowest = called[min(called)]
    minority = (
        deviation.ranks if deviation is not None else tuple(rank for rank in sorted(called) if called[rank] == lowest)
    )
    return minority, tuple(rank for rank in sorted(called) if rank not in minority)


def _by_programs(
    group: GroupTimeline,
    mismatch: Mismatch,
    programs: ProgramComparison,
    called: Mapping[int, tuple[object, ...]],
    *,
    tied: bool,
) -> Deviation | None:
    """Which side differs from ranks with the same part in the job; asked where the group has no majority, or no stacks."""
    if not tied and any(issued.stack for issued in mismatch.issued.values()):
        return None
    return decide(
        programs,
        group,
        mismatch.seq,
        called,
        lambda call: (operation((call,)), _compared((call,), mismatch.kind)),
    )


def _compared(calls: tuple[Call, ...], kind: MismatchKind) -> Hashable:
    """What ranks differ in, besides the operation."""
    match kind:
        case MismatchKind.OPERATION:
            return ()
        case MismatchKind.SHAPE:
            return agreed_shape(calls)
        case MismatchKind.DTYPE:
            return dtypes(calls)
        case _:
            assert_never(kind)


def _cause_by_calls(
    group: GroupTimeline, timeline: Timeline, seq: int, ranks: tuple[int, int], deviation: Deviation | None
) -> Cause:
    """What the minority did, by the number of its calls beside its like, or by the calls that follow on both sides."""
    if deviation is not None and deviation.extra:
        return Cause.EXTRA if deviation.extra > 0 else Cause.MISSING
    mine, theirs = (operations_from(group, timeline, rank, seq) for rank in ranks)
    if agree(mine[1:], theirs[1:]) or reordered(group, timeline, seq, ranks):
        return Cause.MISMATCH
    if any(agree(mine, theirs[missing:]) for missing in range(1, LOOKED_AHEAD)):
        return Cause.MISSING
    if any(agree(mine[extra:], theirs) for extra in range(1, LOOKED_AHEAD)):
        return Cause.EXTRA
    return Cause.MISSING if skipped(operations_until(group, timeline, ranks[1], seq), mine[:1]) else Cause.MISMATCH


def _by_course(programs: ProgramComparison, ours: IssuedCall, theirs: IssuedCall) -> tuple[Cause, bool]:
    """What the minority did, by what usually follows, and whether it turns once more in a loop that the others have left."""
    match FirstDeviations(programs).course(ours, theirs):
        case Course.LEFT_OUT:
            return Cause.MISSING, False
        case Course.BESIDES:
            return Cause.EXTRA, False
        case Course.LEFT_THE_LOOP:
            return Cause.LEFT, False
        case Course.TURNS_AGAIN:
            return Cause.LEFT, True
        case _:
            return Cause.MISMATCH, False


def _as_always(group: GroupTimeline, rank: int, seq: int) -> bool:
    """Whether this rank's loops have led to this call after as many others as before: it did not leave one early."""
    sequence = group.group_sequences.sequence(rank)
    return sequence is not None and has_constant_period(sequence, seq)


def _stays(timeline: Timeline, group: GroupTimeline, mismatch: Mismatch, minority: int, majority: int) -> bool:
    """Whether both were at one place just before, and the rank of the minority is there still: it turns once more."""
    mine, theirs = (timeline.issued(group, rank, mismatch.seq - 1) for rank in (minority, majority))
    if mine is None or theirs is None or not mine.stack or mine.stack != theirs.stack:
        return False
    return mismatch.issued[minority].stack == mine.stack != mismatch.issued[majority].stack


def _from_offset(
    group: GroupTimeline,
    timeline: Timeline,
    code: SourceCode | None,
    mismatch: Mismatch,
    minority: tuple[int, ...],
    majority: tuple[int, ...],
    offset: SequenceOffset,
    *,
    tied: bool,
) -> Desync:
    if tied and offset.extra < 0:
        minority, majority, offset = majority, minority, SequenceOffset(seq=offset.seq, extra=-offset.extra)
    issued = {
        rank: call for rank in (*minority, *majority) if (call := timeline.issued(group, rank, offset.seq)) is not None
    }
    ours, theirs = issued[minority[0]], issued[majority[0]]
    further = (a_turn_further(timeline, group, ours, theirs), a_turn_further(timeline, group, theirs, ours))
    comparison = compare(ours.program, theirs.program, code, (minority, majority), further)
    return Desync(
        cause=Cause.EXTRA if offset.extra > 0 else Cause.MISSING,
        group=group,
        seq=offset.seq,
        minority=minority,
        majority=majority,
        tied=tied and not comparison.decides,
        issued=issued,
        comparison=comparison,
        offset=offset,
        met=mismatch.issued,
    )
