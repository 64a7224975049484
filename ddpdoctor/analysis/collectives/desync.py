"""Why the ranks of a process group met in different collectives: one called too much, left, or took another branch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import PurePath

from typing_extensions import assert_never

from ddpdoctor.analysis.collectives.call_order import (
    LOOKED_AHEAD,
    agree,
    operations_from,
    operations_until,
    reordered,
    skipped,
)
from ddpdoctor.analysis.collectives.calls_by_pass import left_as_always
from ddpdoctor.analysis.collectives.callsites import (
    Comparison,
    Relation,
    compare,
    condition_over,
    is_rank_test,
    rank_test,
    seen_from_minority,
)
from ddpdoctor.analysis.collectives.final_counts import final_counts
from ddpdoctor.analysis.collectives.framework_requests import RankRequest, rank_requests, ranks_under
from ddpdoctor.analysis.collectives.loop_departures import LoopDeparture, LoopDepartures
from ddpdoctor.analysis.collectives.loop_passes import runs_to_its_end, started_next_epoch
from ddpdoctor.analysis.collectives.matching import MismatchKind, dtypes, operation, shape
from ddpdoctor.analysis.collectives.multithreaded import groups_in_turns, made_by_a_thread
from ddpdoctor.analysis.collectives.program_comparison import Deviation, ProgramComparison
from ddpdoctor.analysis.collectives.sequence_offset import SequenceOffset, has_usual_period, sequence_offset_of
from ddpdoctor.analysis.collectives.timeline import GroupTimeline, IssuedCall, Mismatch, Timeline
from ddpdoctor.analysis.crashes.error_patterns import SecondaryError, secondary_error
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, only_users
from ddpdoctor.evidence.ranks import CollectiveCalls, RankExit
from ddpdoctor.evidence.recorder import Call
from ddpdoctor.evidence.source import Condition, Loop, SourceCode

LEAVING = {"barrier"}  # what loops are usually followed by, where the source is not at hand


class Cause(Enum):
    """What the odd ranks did."""

    EXTRA = "called what the others never call"
    MISSING = "never called what the others call"
    LEFT = "ended their loop, or the program, while others still needed them"
    MISMATCH = "called another operation at the same point"
    RACE = "called from several threads in turns, in an order that is chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Desync:
    """One group's ranks out of step, or in step but in different operations.

    `minority` are on the side that is reported and `majority` on the other; `tied` where no majority tells which is at fault.
    `issued` is what each rank called when they came apart; a rank that ended before has none. `comparison` is the place
    of the first odd rank seen from the others. `offset` is set where wrong pairs went unnoticed for a while, and `met`
    is what they ended in. `ended` are the ranks that exited with code 0. `counts` is how many collectives each rank had
    called when all had ended so, where these differ and nothing else is known. `request` is the statement by which the
    odd ranks alone had a framework make the call.
    """

    cause: Cause
    group: GroupTimeline
    seq: int
    minority: tuple[int, ...]
    majority: tuple[int, ...]
    tied: bool
    issued: Mapping[int, IssuedCall]
    comparison: Comparison
    offset: SequenceOffset | None = None
    met: Mapping[int, IssuedCall] | None = None
    ended: tuple[int, ...] = ()
    counts: Mapping[int, int] = field(default_factory=dict)
    request: RankRequest | None = None

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks at fault: the odd ones, or both sides where it cannot be told."""
        return tuple(sorted({*self.minority, *self.majority})) if self.tied else self.minority


@dataclass(frozen=True, slots=True)
class Desyncs:
    """The desync of each group that has one, the one that began first in front."""

    found: tuple[Desync, ...]

    def of(self, cause: Cause) -> tuple[Desync, ...]:
        """Those with this cause."""
        return tuple(desync for desync in self.found if desync.cause is cause)


def derive(
    timeline: Timeline,
    programs: ProgramComparison,
    code: SourceCode | None,
    exits: PerRank[RankExit] | None,
    calls: PerRank[CollectiveCalls] | None = None,
    departures: LoopDepartures | None = None,
) -> Desyncs:
    """Every group's desync, judged by majority over all of its ranks."""
    finished = {entry.rank for entry in exits or () if entry.value.exit_code == 0}
    lost = {entry.rank for entry in exits or () if _lost_a_peer(entry.value)}
    found = [desync for group in timeline.groups for desync in _of_group(group, programs, code, finished, lost)]
    judged = [_by_stop(_by_passes(desync, timeline, calls, code), calls, code) for desync in found]
    last = departures.first if departures is not None else None
    if last is not None and not last.went_on:
        judged = [_by_batches(desync, last, code) for desync in judged]
    return Desyncs(tuple(sorted(judged, key=_began)))


def skips(desync: Desync, code: SourceCode | None) -> list[str]:
    """The `continue`s, as `train.py:58`, of the loops that the usual ranks called from and the odd ones did not."""
    return sorted(
        {f"{PurePath(frame.file).name}:{line}" for frame, loop in loops_left(desync, code) for line in loop.skips}
    )


def turns_without_a_call(desync: Desync, code: SourceCode | None) -> list[str]:
    """The `continue`s, as `train.py:58`, of the loops that the ranks made their last calls in."""
    loops = _loops(desync, sorted(desync.issued), code)
    return sorted({f"{PurePath(frame.file).name}:{line}" for frame, loop in loops for line in loop.skips})


def loops_left(desync: Desync, code: SourceCode | None) -> list[tuple[Frame, Loop]]:
    """The loops that the usual ranks called from and the odd ones did not, outermost first, each with a line in it."""
    here = {(frame.file, loop) for frame, loop in _loops(desync, desync.minority, code)}
    return [(frame, loop) for frame, loop in _loops(desync, desync.majority, code) if (frame.file, loop) not in here]


def _loops(desync: Desync, ranks: Sequence[int], code: SourceCode | None) -> list[tuple[Frame, Loop]]:
    """The loops that these ranks made their calls in, each once, with a line in it."""
    frames = dict.fromkeys(frame for rank in ranks if rank in desync.issued for frame in desync.issued[rank].stack)
    found: dict[tuple[str, Loop], Frame] = {}
    for frame in frames:
        place = code.at(frame.file, frame.line) if code is not None else None
        for loop in place.loops if place is not None else ():
            found.setdefault((frame.file, loop), frame)
    return [(frame, loop) for (_, loop), frame in found.items()]


def _lost_a_peer(ending: RankExit) -> bool:
    return ending.error is not None and secondary_error(ending.error.message) is SecondaryError.PEER_GONE


def _began(desync: Desync) -> int:
    return min((issued.created_ns for issued in desync.issued.values()), default=0)


def _of_group(
    group: GroupTimeline, programs: ProgramComparison, code: SourceCode | None, finished: set[int], lost: set[int]
) -> Iterator[Desync]:
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
        yield _ended(group, short, waiting, code)
    counts = final_counts(group, programs.timeline, finished)
    if not waiting and len({*counts.values()}) > 1:
        yield _uneven(group, counts)


def _is_race(group: GroupTimeline, timeline: Timeline, mismatch: Mismatch) -> bool:
    """Whether ranks came apart in calls of different threads, which each makes in turns, or which differ in shape alone."""
    records = timeline.call_index.records
    by_a_thread = {
        made_by_a_thread(records[sequence.rank], sequence.entries[mismatch.seq - sequence.first])
        for sequence in group.group_sequences.sequences
        if sequence.rank in mismatch.issued
    }
    in_turns = {issued.name for rank in group.recorded for issued in groups_in_turns(records[rank])}
    return len(by_a_thread) > 1 and (
        mismatch.kind is MismatchKind.SHAPE or group.group_sequences.group.name in in_turns
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


def _ended(group: GroupTimeline, short: set[int], waiting: Mapping[int, IssuedCall], code: SourceCode | None) -> Desync:
    """Some ranks ended with exit code 0 while others wait: whoever is the minority of these is at fault.

    A rank test above the call that all wait in tells more: then it is that call that not all ranks make.
    What a rank did that lost its peers, and its recorder with them, is not known, and counts for neither side, unless the test
    says which ranks make the call.
    """
    tests = [rank_test(issued.program, code) for issued in waiting.values()]
    tested = tests[0] if tests and None not in tests else None
    through = ranks_under(tested[0], group.members) if tested is not None else ()
    agrees = set(waiting) <= set(through) and short.isdisjoint(through)
    call, do_not = (len(through), len(group.members) - len(through)) if agrees else (len(waiting), len(short))
    few_wait = call < do_not or (tested is not None and call == do_not)
    seq = min(issued.seq for issued in waiting.values())
    relation = Relation.CONDITIONAL if few_wait else Relation.UNCONDITIONAL
    return Desync(
        cause=Cause.EXTRA if few_wait else Cause.LEFT if tested is None else Cause.MISSING,
        group=group,
        seq=seq,
        minority=tuple(sorted(waiting if few_wait else short)),
        majority=tuple(sorted(short if few_wait else waiting)),
        tied=False,
        issued=waiting,
        comparison=(
            Comparison(relation, condition=tested[0], frame=tested[1])
            if tested is not None
            else Comparison(Relation.UNKNOWN)
        ),
        ended=tuple(sorted(short)),
    )


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
    majority = sides.majority
    minority = sides.minority
    deviation = _by_programs(group, mismatch, programs, called, tied=sides.tied)
    tied = sides.tied and deviation is None
    if deviation is not None and sides.tied:
        minority = deviation.ranks
        majority = tuple(rank for rank in sorted(called) if rank not in minority)
    elif sides.tied:
        by_call: dict[object, list[int]] = {}
        for rank in sorted(mismatch.issued):
            by_call.setdefault(called[rank], []).append(rank)
        first, *others = by_call.values()
        minority, majority = tuple(first), tuple(rank for ranks in others for rank in ranks)
    stacks = {rank: issued.program for rank, issued in mismatch.issued.items()}
    minority, majority, comparison = seen_from_minority(minority, majority, stacks, code, tied=tied)
    offset = sequence_offset_of(group.group_sequences, minority[0], majority, mismatch.seq)
    if offset is not None:
        return _from_offset(group, timeline, code, mismatch, minority, majority, offset, tied=tied)
    cause = cause_of(comparison, mismatch.issued[minority[0]].op, mismatch.issued[majority[0]].op)
    by_calls = comparison.relation in (Relation.UNKNOWN, Relation.SAME, Relation.ELSEWHERE)
    if cause is Cause.MISMATCH and (deviation is not None or by_calls):
        cause = _cause_by_calls(group, timeline, mismatch.seq, (minority[0], majority[0]), deviation)
    if cause is Cause.LEFT and (
        _stays(timeline, group, mismatch, minority[0], majority[0])
        or (tied and _as_always(group, minority[0], mismatch.seq))
    ):
        cause = Cause.EXTRA
    found = Desync(
        cause=cause,
        group=group,
        seq=mismatch.seq,
        minority=minority,
        majority=majority,
        tied=tied and cause is not Cause.LEFT and not comparison.decides,
        issued=mismatch.issued,
        comparison=comparison,
    )
    below_one_line = only_users(stacks[minority[0]]) == only_users(stacks[majority[0]])
    unclear = (by_calls and cause is Cause.MISMATCH) or (found.tied and below_one_line)
    return _by_requests(found, code) if unclear else found


def _by_requests(desync: Desync, code: SourceCode | None) -> Desync:
    """Of two calls below one line of the user's: whether a statement under a test of the rank asked the framework for one.

    A function that the statement hands over must be above that call.
    """
    ranks = (*desync.minority, *desync.majority)
    programs = {rank: desync.issued[rank].program for rank in ranks}
    if programs[desync.minority[0]] == programs[desync.majority[0]]:
        return desync
    for asked in rank_requests(code, "call"):
        made_by = asked.made_by(sorted(ranks))
        sides = (desync.minority, desync.majority) if desync.tied else (desync.minority,)
        untold = () if desync.tied or made_by else desync.minority
        by = made_by if made_by in sides else untold
        handed = re.findall(r"[\w.]+", asked.request.text)
        others = {frame.function for rank in ranks if rank not in by for frame in programs[rank]}
        ours = {frame.function for rank in by for frame in programs[rank]} - others
        takes_a_function = asked.request.text.partition("(")[0].endswith(("add_event_handler", "add_callback"))
        if by and (not takes_a_function or ours.intersection(name.rpartition(".")[2] for name in handed)):
            return replace(
                desync,
                cause=Cause.EXTRA,
                minority=tuple(by),
                majority=tuple(rank for rank in sorted(ranks) if rank not in by),
                tied=False,
                comparison=Comparison(Relation.CONDITIONAL, condition=asked.condition, frame=asked.frame),
                request=asked,
            )
    return desync


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
    return programs.decide(
        group,
        mismatch.seq,
        called,
        lambda call: (operation((call,)), _compared((call,), mismatch.kind)),
    )


def _compared(calls: tuple[Call, ...], kind: MismatchKind) -> object:
    """What ranks differ in, besides the operation."""
    match kind:
        case MismatchKind.OPERATION:
            return ()
        case MismatchKind.SHAPE:
            return shape(calls)
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


def _as_always(group: GroupTimeline, rank: int, seq: int) -> bool:
    """Whether this rank's loops have led to this call after as many others as before: it did not leave one early."""
    sequence = group.group_sequences.sequence(rank)
    return sequence is not None and has_usual_period(sequence, seq)


def _stays(timeline: Timeline, group: GroupTimeline, mismatch: Mismatch, minority: int, majority: int) -> bool:
    """Whether both were at one place just before, and it is the odd rank that is there still: it turns once more."""
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
    comparison = compare(issued[minority[0]].program, issued[majority[0]].program, code)
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


def _by_passes(
    desync: Desync, timeline: Timeline, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None
) -> Desync:
    """Of ranks past a loop and ranks in it: whether these make one turn more of it, or have come to it again.

    Then they have left out the call that the others make behind it. Where it is not known, and no majority tells who is odd,
    nobody is said to have left the loop early.
    """
    within = desync.comparison.relation is Relation.WITHIN
    if not desync.comparison.again or not desync.issued or desync.offset is not None:
        return desync
    again, there = (desync.minority, desync.majority) if within else (desync.majority, desync.minority)
    gone = None if desync.group.name else started_next_epoch(calls, again, there, desync.seq)
    loop = desync.comparison.loop
    if gone is None and (
        left_as_always(timeline, desync.group, desync.seq, loop, code, again, there)
        or (runs_to_its_end(loop) and not _handled_an_error(calls, there, desync.seq))
    ):
        gone = True
    if gone is None and desync.group.name:
        return desync
    if gone is False:
        return replace(desync, comparison=replace(desync.comparison, again=False))
    guard = _guard(desync.issued[again[0]].program, code) if gone is None else None
    if guard is not None:
        called = Comparison(Relation.CONDITIONAL, condition=guard[0], frame=guard[1])
        return replace(desync, cause=Cause.EXTRA, minority=again, majority=there, tied=False, comparison=called)
    left = desync.cause is Cause.LEFT and not _handled_an_error(calls, there, desync.seq)
    if gone is None and left and len(again) == len(there):
        seen = replace(desync.comparison, relation=Relation.WITHIN)
        return replace(desync, cause=Cause.EXTRA, minority=again, majority=there, tied=True, comparison=seen)
    if gone is None:
        return desync
    # in other groups than that of all ranks, the programs of ranks in other groups have told which of two is odd
    tied = desync.tied or (len(desync.minority) == len(desync.majority) and not desync.group.name)
    lacking = within or tied
    condition = condition_over(desync.issued[there[0]].stack, code)
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


def _by_stop(desync: Desync, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None) -> Desync:
    """Of two equal sides: whether one asked its framework, under a test of the rank, to stop, and only the other still trains."""
    if not desync.tied or desync.offset is not None or not desync.issued:
        return desync
    trains = {(one.place.file, one.place.function) for entry in calls or () for one in entry.value.forwards[-1:]}
    training = tuple(
        rank
        for rank, issued in sorted(desync.issued.items())
        if any((frame.file, frame.function) in trains for frame in issued.program)
    )
    ranks = tuple(sorted(desync.issued))
    for asked in rank_requests(code, "stop"):
        stopped = asked.made_by(ranks)
        if stopped and training == tuple(rank for rank in ranks if rank not in stopped):
            return replace(
                desync,
                cause=Cause.LEFT,
                minority=stopped,
                majority=training,
                tied=False,
                comparison=Comparison(Relation.PAST),
                request=asked,
            )
    return desync


def _by_batches(desync: Desync, last: LoopDeparture, code: SourceCode | None) -> Desync:
    """Whether the ranks past a loop left it: they drew fewer batches than a pass has, or than the others."""
    past = {Relation.PAST: desync.minority, Relation.WITHIN: desync.majority}.get(desync.comparison.relation)
    if past != last.ranks or desync.group.name or desync.offset is not None or not desync.issued:
        return desync
    if any(_is_in(last.loop, desync.issued[rank].program, code) for rank in past if rank in desync.issued):
        return desync  # a call further down in the same turn of the loop
    comparison = replace(desync.comparison, relation=Relation.PAST)
    return replace(
        desync, cause=Cause.LEFT, minority=last.ranks, majority=last.others, tied=last.tied, comparison=comparison
    )


def _is_in(loop: Loop | None, program: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether one of these frames stands in `loop`."""
    places = [code.at(frame.file, frame.line) for frame in program] if code is not None and loop is not None else []
    return any(place is not None and loop in place.loops for place in places)


def _guard(program: Sequence[Frame], code: SourceCode | None) -> tuple[Condition, Frame] | None:
    """A test of the rank by which some ranks pass over the rest of a loop before the innermost line in one, and that line."""
    for frame in reversed(program):
        place = code.at(frame.file, frame.line) if code is not None else None
        if place is not None and place.loops:
            jumps = (jump for loop in reversed(place.loops) for jump in loop.jumps)
            before = (jump for jump in jumps if jump.word != "return" and jump.line < frame.line)
            found = next((jump for jump in before if is_rank_test(jump.test, by_rank=jump.by_rank)), None)
            if found is None:
                return None
            return Condition(line=found.line, test=found.test, branch=1, by_rank=found.by_rank), frame
    return None


def _handled_an_error(calls: PerRank[CollectiveCalls] | None, ranks: Sequence[int], seq: int) -> bool:
    """Whether one of these ranks made call `seq` while it handled an error: then that led it out of its loop."""
    return any(one.seq == seq for entry in calls or () if entry.rank in ranks for one in entry.value.handled)


def cause_of(comparison: Comparison, minority_op: str, majority_op: str) -> Cause:
    """The cause, by where the odd ranks stand. A majority that has left the loop means one call too many of the odd."""
    match comparison.relation:
        case Relation.PAST if comparison.loop is not None or minority_op in LEAVING:
            return Cause.LEFT
        case Relation.WITHIN if comparison.loop is not None or majority_op in LEAVING:
            return Cause.EXTRA
        case Relation.CONDITIONAL | Relation.BEFORE:
            return Cause.EXTRA
        case Relation.UNCONDITIONAL | Relation.AHEAD:
            return Cause.MISSING
        case _:
            return Cause.MISMATCH
