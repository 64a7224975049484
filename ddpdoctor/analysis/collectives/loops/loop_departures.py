"""Which ranks left their training loop before the others, or passed over a batch of it, and by which statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.loops.batch_departures import (
    DepartureKind,
    FoundDeparture,
    by_batches,
    first_to_end,
)
from ddpdoctor.analysis.collectives.loops.calls_behind_loops import calls_behind, may_be_left_out
from ddpdoctor.analysis.collectives.loops.loop_passes import runs_to_its_end
from ddpdoctor.analysis.collectives.places.forward_loops import exits_behind, loop_of, loop_with_an_exit
from ddpdoctor.analysis.collectives.places.rank_tests import is_rank_test, lets_pass_only
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, StepMark
from ddpdoctor.evidence.source import Jump, Loop, SourceCode

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
    forwards = {entry.rank: entry.value.forwards for entry in calls}
    found = by_batches(marks) or _by_the_call_behind(marks, calls, code, timeline)
    if found is None:
        return LoopDepartures(None)
    last = _last_forward(forwards[found.ranks[0]], found.forwards)
    frame, loop = loop_of(last, code)
    if found.how is DepartureKind.LEFT or (found.how is DepartureKind.ENDED and runs_to_its_end(loop)):
        frame, loop = loop_with_an_exit(last, code)
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
            behind=calls_behind(
                {entry.rank: entry.value for entry in calls if entry.rank in found.ranks}, code, timeline
            ),
        )
    )


def _by_the_call_behind(
    marks: Mapping[int, Mapping[int, StepMark]],
    calls: PerRank[CollectiveCalls],
    code: SourceCode | None,
    timeline: Timeline | None,
) -> FoundDeparture | None:
    """Some ranks made a call behind the loop, under no condition, where the others made a further forward in it.

    These still have to reach that call: without a data loader that counts, it tells that the loop of the former was shorter.
    """
    least, early = first_to_end(marks)
    if (
        not least
        or len(early) == len(marks)
        or any(mark.of is not None for each in marks.values() for mark in each.values())
    ):
        return None
    behind = calls_behind({entry.rank: entry.value for entry in calls if entry.rank in early}, code, timeline)
    if {*behind} != {*early} or any(may_be_left_out(call, rank, timeline, code) for rank, call in behind.items()):
        return None
    last = marks[early[0]].get(least)
    return FoundDeparture(
        how=DepartureKind.ENDED, ranks=early, tied=False, iteration=least, batches=last.in_pass if last is not None else None,
        lengths={}, forwards=least if last is None or last.in_pass is None else None, went_on=False,
    )  # fmt: skip


def _last_forward(forwards: Sequence[Forward], made: int | None) -> Forward | None:
    """The last of these, or the last among the first `made` of the rank; the first one where it had made none."""
    if not made and made is not None:
        return next((forward for forward in forwards if forward.number == 1), None)
    return next((forward for forward in reversed(forwards) if made is None or forward.number <= made), None)
