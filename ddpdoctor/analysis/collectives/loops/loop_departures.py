"""Which ranks left their training loop before the others, or passed over a batch of it, by the batches that each drew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise

from ddpdoctor.analysis.collectives.places.forward_loops import exits_behind, loop_of, loop_with_an_exit
from ddpdoctor.analysis.collectives.places.rank_tests import is_rank_test, is_the_same_everywhere, lets_pass_only
from ddpdoctor.analysis.collectives.recorders.timeline import NAMES_OF_DEFAULT_GROUP, Timeline
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, StepMark
from ddpdoctor.evidence.source import Condition, Jump, Loop, SourceCode, place_of

# of all batches, the least share that the usual number of forwards followed: with fewer there is no usual number
STEADY = 0.5
CONTEXT = 4  # forwards before one that tell how many collectives usually follow: most accumulate over four at most
SEEN_OFTEN = 2  # times on each rank that a number must have followed before it is usual


class DepartureKind(Enum):
    """What the ranks did that their peers did not."""

    LEFT = "left the loop over their batches before its end"
    SHORT = "had fewer batches"
    ENDED = "made fewer turns of a loop that no data loader counts"
    SKIPPED = "passed over a batch"
    IRREGULAR = "made another number of collectives with a forward than usual"


_WORDS = {
    DepartureKind.LEFT: ("break", "return"),
    DepartureKind.SKIPPED: ("continue",),
    DepartureKind.SHORT: (),
    DepartureKind.ENDED: ("break", "return"),
    DepartureKind.IRREGULAR: ("break", "continue", "return"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDeparture:
    """Where the loops of the ranks diverged."""

    how: DepartureKind
    """What the ranks did that their peers did not."""
    ranks: tuple[int, ...]
    """The ranks that left their loop, or passed over a batch."""
    others: tuple[int, ...]
    """The ranks that went on."""
    tied: bool
    """Whether there is no majority: either side may be at fault."""
    iteration: int
    """The last batch that all ranks drew before, counted from the start."""
    batches: int | None
    """The place of that batch in its pass."""
    lengths: Mapping[int, int]
    """By rank, how many batches a pass has, or how many collectives it made with that forward."""
    forwards: int | None
    """How many training forwards `ranks` had made."""
    went_on: bool
    """Whether `ranks` drew batches afterwards; where they did not, they may also wait for their peers in that batch."""
    frame: Frame | None = None
    """The line in that loop."""
    loop: Loop | None = None
    """The loop in which `ranks` called their forwards."""
    exits: tuple[tuple[Frame, Jump], ...] = ()
    """Of ranks that made fewer collectives with a forward, what may have ended that turn behind it: see `exits_behind`."""
    behind: Mapping[int, CollectiveCall] = field(default_factory=dict)
    """By rank of `ranks`, the last call that it made behind that loop."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks at fault, or all where it may be either side."""
        return tuple(sorted({*self.ranks, *self.others})) if self.tied else self.longer or self.ranks

    @property
    def longer(self) -> tuple[int, ...]:
        """The few ranks that have more batches, or make more turns, than the majority; nobody where the few have fewer."""
        if self.how is DepartureKind.ENDED:
            by_rank = any(lets_pass_only(jump, self.ranks, self.others) for jump in self.jumps)
            return self.others if len(self.others) < len(self.ranks) and not by_rank else ()
        if self.how is not DepartureKind.SHORT or {*self.lengths} != {*self.ranks, *self.others}:
            return ()
        sides = vote(self.lengths)
        return sides.minority if not sides.tied and set(sides.minority) <= {*self.others} else ()

    @property
    def jumps(self) -> tuple[Jump, ...]:
        """The statements of the loop by which the ranks may have left it or its turn; those under a test of the rank, if any."""
        words = _WORDS[self.how]
        found = tuple(jump for jump in self.loop.jumps if jump.word in words) if self.loop is not None else ()
        by_rank = tuple(jump for jump in found if is_rank_test(jump.test, by_rank=jump.by_rank))
        return by_rank if by_rank or self.how is DepartureKind.IRREGULAR else found


@dataclass(frozen=True, slots=True)
class LoopDepartures:
    """Where the loops of the job's ranks first diverged."""

    first: LoopDeparture | None
    """The first departure; None where the loops never diverged or nothing tells."""

    def before(self, iteration: int) -> LoopDeparture | None:
        """The first departure, where ranks drew further batches after it, and if it came before this iteration."""
        found = self.first
        return found if found is not None and found.went_on and found.iteration < iteration else None

    @property
    def at_the_end(self) -> LoopDeparture | None:
        """The first departure, where all of its ranks made a call behind their loop and drew no further batch."""
        found = self.first
        return found if found is not None and not found.went_on and {*found.behind} == {*found.ranks} else None


def derive(
    calls: PerRank[CollectiveCalls], code: SourceCode | None, timeline: Timeline | None = None
) -> LoopDepartures:
    """The first batch after which the ranks did not do the same: some began their next pass, or made no forward with it.

    Alone this is no fault: ranks may look for good batches each by itself, and have unequally many under `Join`.
    """
    marks = {entry.rank: {mark.iteration: mark for mark in entry.value.steps} for entry in calls}
    common = sorted(set.intersection(*map(set, marks.values()))) if marks else []
    forwards = {entry.rank: entry.value.forwards for entry in calls}
    found = (
        _first(marks, common)
        or _irregular(marks, common)
        or _at_the_end(marks)
        or _by_the_call_behind(marks, calls, code, timeline)
    )
    if found is None:
        return LoopDepartures(None)
    last = _last_forward(forwards[found.ranks[0]], found.forwards)
    frame, loop = loop_with_an_exit(last, code) if found.how is DepartureKind.LEFT else loop_of(last, code)
    fewer = found.how is DepartureKind.IRREGULAR and max(found.lengths[rank] for rank in found.ranks) < max(
        found.lengths.values()
    )
    return LoopDepartures(
        LoopDeparture(
            how=found.how,
            ranks=found.ranks,
            others=tuple(rank for rank in sorted(marks) if rank not in found.ranks),
            tied=found.tied,
            iteration=found.iteration,
            batches=found.batches,
            lengths=found.lengths,
            forwards=found.forwards,
            went_on=found.went_on,
            frame=frame,
            loop=loop,
            exits=tuple(exits_behind(last, frame, code)) if fewer else (),
            behind=_behind({entry.rank: entry.value for entry in calls if entry.rank in found.ranks}, code, timeline),
        )
    )


def _behind(
    calls: Mapping[int, CollectiveCalls], code: SourceCode | None, timeline: Timeline | None = None
) -> Mapping[int, CollectiveCall]:
    """The last call of each of these ranks, if it came after its last forward and is behind the loop around that."""
    return {
        rank: call
        for rank, made in calls.items()
        for call in made.calls[-1:]
        if _is_behind(call, made, code, _program_of(call, rank, timeline))
    }


def _program_of(call: CollectiveCall, rank: int, timeline: Timeline | None) -> tuple[Frame, ...]:
    """The lines that led to this call, outermost first, by the flight recorder; none where it does not tell."""
    if timeline is None or call.seq is None or call.group not in NAMES_OF_DEFAULT_GROUP:
        return ()
    groups = [group for group in timeline.groups if group.name in NAMES_OF_DEFAULT_GROUP]
    issued = timeline.issued(groups[0], rank, call.seq) if groups else None
    return issued.stack if issued is not None else ()


def _is_behind(
    call: CollectiveCall, made: CollectiveCalls, code: SourceCode | None, program: tuple[Frame, ...] = ()
) -> bool:
    """Whether this call is below the loop in its function, or in a function that led to that one, or was made from there.

    `program` are the lines that led to the call, where they are known.
    """
    forward = made.forwards[-1] if made.forwards else None
    frame, loop = loop_of(forward, code)
    place, after = call.place, made.steps[-1].seq if made.steps else 0
    if forward is None or frame is None or loop is None or place is None or call.seq is None or call.seq <= after:
        return False
    if (place.file, place.function) == (frame.file, frame.function):
        known = place_of(code, place)
        return known is not None and loop not in known.loops and place.line > loop.line
    to_the_loop = forward.stack[forward.stack.index(frame) :][::-1] if frame in forward.stack else ()
    if any((place.file, place.function) == (caller.file, caller.function) for caller in to_the_loop[:-1]):
        return True
    return _from_a_later_line(program, to_the_loop, loop, code)


def _from_a_later_line(
    program: Sequence[Frame], to_the_loop: Sequence[Frame], loop: Loop, code: SourceCode | None
) -> bool:
    """Whether the first of these lines, outermost first, that differs from those to the loop is below it in its function."""
    differing = next(((here, there) for here, there in zip(program, to_the_loop, strict=False) if here != there), None)
    if differing is None:
        return False
    here, there = differing
    known = code.at(here.file, here.line) if code is not None else None
    outside = there != to_the_loop[-1] or (known is not None and loop not in known.loops)
    return outside and (here.file, here.function) == (there.file, there.function) and here.line > there.line


def _conditions(place: Frame | None, code: SourceCode | None) -> tuple[Condition, ...]:
    known = place_of(code, place)
    return known.conditions if known is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    how: DepartureKind
    ranks: tuple[int, ...]
    tied: bool
    iteration: int
    batches: int | None
    lengths: Mapping[int, int]
    forwards: int | None
    went_on: bool = True


def _first(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> _Found | None:
    most_frequent = _most_frequent_forwards(marks, common)
    for before, now in pairwise(common):
        if now != before + 1:
            continue
        at = {rank: each[now] for rank, each in marks.items()}
        last = {rank: each[before] for rank, each in marks.items()}
        places = {rank: mark.in_pass for rank, mark in at.items()}
        if None not in places.values() and len({*places.values()}) > 1:
            return _next_pass(last, at)
        made = {rank: _made(last[rank], at[rank]) for rank in at}
        if most_frequent is not None and None not in made.values() and len({*made.values()}) > 1:
            few = tuple(rank for rank, count in sorted(made.items()) if count is not None and count < most_frequent)
            if few and all(count == most_frequent for rank, count in made.items() if rank not in few):
                return _Found(
                    how=DepartureKind.SKIPPED,
                    ranks=few,
                    tied=False,
                    iteration=before,
                    batches=last[few[0]].in_pass,
                    lengths={},
                    forwards=at[few[0]].forwards,
                )
            return None
    return None


def _next_pass(last: Mapping[int, StepMark], at: Mapping[int, StepMark]) -> _Found | None:
    """Some ranks are at the first batch of their next pass where the others drew a further one of the same."""
    early = tuple(rank for rank, mark in sorted(at.items()) if (mark.in_pass or 0) <= (last[rank].in_pass or 0))
    others = [rank for rank in at if rank not in early]
    drawn = {rank: at[rank].in_pass or 0 for rank in others}
    return _left_or_short(early, others, last, at[early[0]].forwards, drawn) if early and others else None


def _irregular(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> _Found | None:
    """Without a data loader, iterations are forwards: which ranks made another number of collectives with one than usual.

    Usual is what followed the same numbers before, on any rank: of an accumulation over four forwards, 0, 0, 0, 1.
    """
    if any(mark.in_pass is not None for each in marks.values() for mark in each.values()):
        return None
    before: dict[int, tuple[int, ...]] = dict.fromkeys(marks, ())
    followed: dict[tuple[int, ...], Counter[int]] = {}
    for last, now in pairwise(common):
        made = {rank: each[now].seq - each[last].seq for rank, each in marks.items()}
        if len({*made.values()}) > 1:
            most_frequent = followed.get(before[next(iter(before))], Counter()).most_common(1)
            few = tuple(
                rank for rank, count in sorted(made.items()) if not most_frequent or count != most_frequent[0][0]
            )
            if not most_frequent or most_frequent[0][1] < SEEN_OFTEN * len(marks) or not few or len(few) == len(made):
                return None
            return _Found(
                how=DepartureKind.IRREGULAR,
                ranks=few,
                tied=False,
                iteration=last,
                batches=None,
                lengths=made,
                forwards=last,
            )
        for rank, count in made.items():
            if len(before[rank]) == CONTEXT:
                followed.setdefault(before[rank], Counter())[count] += 1
            before[rank] = (*before[rank], count)[-CONTEXT:]
    return None


def _at_the_end(marks: Mapping[int, Mapping[int, StepMark]]) -> _Found | None:
    """Some ranks drew their last batch where the others drew a further one of the same pass."""
    least, early = _first_to_end(marks)
    others = [rank for rank in marks if rank not in early]
    if not least or any(least not in each for each in marks.values()):
        return None
    last = {rank: each[least] for rank, each in marks.items()}
    if not others:
        return _at_the_end_of_some(last)
    if any(least + 1 not in marks[rank] for rank in others):
        return None
    if any(marks[rank][least + 1].in_pass != (last[rank].in_pass or 0) + 1 for rank in others):
        return None
    return _left_or_short(early, others, last, None, {rank: marks[rank][least + 1].in_pass or 0 for rank in others})


def _first_to_end(marks: Mapping[int, Mapping[int, StepMark]]) -> tuple[int, tuple[int, ...]]:
    """The lowest last iteration of a rank, and the ranks that end with it."""
    ends = {rank: max(each, default=0) for rank, each in marks.items()}
    least = min(ends.values(), default=0)
    return least, tuple(rank for rank, end in sorted(ends.items()) if end == least)


def _at_the_end_of_some(last: Mapping[int, StepMark]) -> _Found | None:
    """All ranks drew as many batches, and some have no further one: a call before the next batch may part the ranks."""
    early = tuple(rank for rank, mark in sorted(last.items()) if mark.of is not None and mark.in_pass == mark.of)
    others = [rank for rank in last if rank not in early]
    known = all(mark.of is not None and mark.in_pass is not None for mark in last.values())
    return _left_or_short(early, others, last, None, {}) if early and others and known else None


def _by_the_call_behind(
    marks: Mapping[int, Mapping[int, StepMark]],
    calls: PerRank[CollectiveCalls],
    code: SourceCode | None,
    timeline: Timeline | None,
) -> _Found | None:
    """Some ranks made a call behind the loop, under no condition, where the others made a further forward in it.

    These still have to reach that call: without a data loader that counts, it tells that the loop of the former was shorter.
    """
    least, early = _first_to_end(marks)
    if (
        not least
        or len(early) == len(marks)
        or any(mark.of is not None for each in marks.values() for mark in each.values())
    ):
        return None
    behind = _behind({entry.rank: entry.value for entry in calls if entry.rank in early}, code, timeline)
    if {*behind} != {*early} or any(_may_be_left_out(call, rank, timeline, code) for rank, call in behind.items()):
        return None
    last = marks[early[0]].get(least)
    return _Found(
        how=DepartureKind.ENDED, ranks=early, tied=False, iteration=least, batches=last.in_pass if last is not None else None,
        lengths={}, forwards=least if last is None or last.in_pass is None else None, went_on=False,
    )  # fmt: skip


def _may_be_left_out(call: CollectiveCall, rank: int, timeline: Timeline | None, code: SourceCode | None) -> bool:
    """Whether a condition stands around a line that led to this call, so that others may never reach it."""
    lines = (call.place, *_program_of(call, rank, timeline))
    return any(not is_the_same_everywhere(one) for line in lines for one in _conditions(line, code))


def _left_or_short(
    early: tuple[int, ...],
    others: Sequence[int],
    last: Mapping[int, StepMark],
    forwards: int | None,
    drawn: Mapping[int, int],
) -> _Found | None:
    """Why the ranks `early` drew no further batch of the pass of which all drew `last`; `forwards` are None at their end.

    `drawn` is how many batches the others have drawn of it: a pass may have more than its data loader says.
    """
    batches = {last[rank].in_pass for rank in (*early, *others)}
    if len(batches) > 1:
        return None
    (made,) = batches
    lengths = {rank: max(mark.of, drawn.get(rank, 0)) for rank, mark in last.items() if mark.of is not None}
    before_its_end = all(rank in lengths and made is not None and made < lengths[rank] for rank in early)
    if not before_its_end and len({*lengths.values()}) < 2:
        return None
    sides = vote({rank: lengths.get(rank) for rank in last})
    return _Found(
        how=DepartureKind.LEFT if before_its_end else DepartureKind.SHORT,
        ranks=early,
        tied=not before_its_end and sides.tied,
        iteration=last[early[0]].iteration,
        batches=made,
        lengths=lengths,
        forwards=forwards,
        went_on=forwards is not None,
    )


def _most_frequent_forwards(marks: Mapping[int, Mapping[int, StepMark]], common: Sequence[int]) -> int | None:
    """How many forwards follow most batches, over all ranks; None where there is no such number."""
    counts = Counter(
        made
        for each in marks.values()
        for before, now in pairwise(common)
        if now == before + 1 and (made := _made(each[before], each[now])) is not None
    )
    if not counts:
        return None
    ((most_frequent, times),) = counts.most_common(1)
    return most_frequent if most_frequent > 0 and times >= STEADY * counts.total() else None


def _made(before: StepMark, now: StepMark) -> int | None:
    if before.forwards is None or now.forwards is None:
        return None
    return now.forwards - before.forwards


def _last_forward(forwards: Sequence[Forward], made: int | None) -> Forward | None:
    """The last of these, or the last among the first `made` of the rank; the first one where it had made none."""
    if not made and made is not None:
        return next((forward for forward in forwards if forward.number == 1), None)
    return next((forward for forward in reversed(forwards) if made is None or forward.number <= made), None)
