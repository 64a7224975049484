"""Which of the divergences that the records of the ranks show came first: all others follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desyncs
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.iteration_skew import (
    ForkedForward,
    Iterations,
    IterationSkew,
    OtherForward,
    UnevenAccumulation,
)
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture, LoopDepartures
from ddpdoctor.analysis.collectives.loops.loop_passes import SkippedBatch
from ddpdoctor.analysis.collectives.loops.unreduced_steps import UnreducedSteps, ended_without_it
from ddpdoctor.analysis.collectives.mispaired_objects import met_behind_its_loop
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import AbortedPastALoop
from ddpdoctor.analysis.collectives.stacks.aborted_under_a_test import AbortedUnderATest
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import SkipCheck

By: TypeAlias = (
    UnreducedSteps
    | UnevenAccumulation
    | LoopDeparture
    | ForkedForward
    | IterationSkew
    | OtherForward
    | AbortedPastALoop
    | AbortedUnderATest
    | SkippedBatch
)


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """How the ranks diverged first; the rule that tells of it is the only one that does."""

    by: By
    """What the ranks did."""


def derive(
    iterations: Iterations | None,
    departures: LoopDepartures | None,
    unreduced: UnreducedSteps | None,
    desyncs: Desyncs | None,
    failures: Failures | None,
    aborted: AbortedPastALoop | None,
    under_a_test: AbortedUnderATest | None,
    timeline: Timeline | None,
    code: SourceCode | None,
) -> FirstDivergence:
    """What is known for certain before what is probable, and of these what came earlier in a step.

    Ranks that trained without their peers explain everything else. A forward whose gradients some ranks did not reduce explains
    the iterations after it, and a batch that was passed over explains the number of collectives before the next one.
    Where no recorder shows calls that met and gloo says that some did, what proves nothing by itself is believed.

    Raises:
        SkipCheck: at most the calls in which the ranks wait show how they diverged.
    """
    if unreduced is not None and unreduced.ranks:
        return FirstDivergence(unreduced)
    seen = iterations if iterations is not None else Iterations(None)
    diverged = desyncs is not None and bool(desyncs.found)
    mixed_up = failures is not None and bool(failures.mismatched)
    by_gloo = mixed_up and not diverged
    if _reduced_by_some(seen, failures, noticed=mixed_up or diverged):
        found: By | None = seen.accumulation
    elif departed := _departed(departures, seen.out_of_step or (seen.left_out if by_gloo else None)):
        found = departed
    elif seen.forked is not None and (seen.out_of_step or (desyncs is not None and desyncs.of(Cause.LEFT))):
        found = seen.forked
    elif seen.out_of_step is not None:
        found = seen.out_of_step
    elif not diverged and (ended := _at_the_end(departures, timeline, code, mixed_up=mixed_up)):
        found = ended
    elif by_gloo:
        found = seen.left_out or seen.other_forward or aborted or under_a_test
    else:
        found = _skipped(seen.passed_over, desyncs)
    if found is None:
        raise SkipCheck("no record shows where the ranks diverged before the calls in which they wait")
    return FirstDivergence(found)


def _reduced_by_some(seen: Iterations, failures: Failures | None, *, noticed: bool) -> bool:
    """Whether only some ranks reduced the gradients of a forward, and the job went wrong after it."""
    uneven = seen.accumulation
    return uneven is not None and (noticed or seen.out_of_step is not None or ended_without_it(uneven, failures))


def _departed(departures: LoopDepartures | None, noticed: IterationSkew | None) -> LoopDeparture | None:
    """Where the loops of the ranks diverged before the iteration in which that was noticed, if no call explains it better."""
    departure = departures.before(noticed.iteration) if departures is not None and noticed is not None else None
    by_a_call = (
        departure is not None and departure.how is DepartureKind.IRREGULAR and noticed is not None and noticed.own
    )
    return None if by_a_call else departure


def _at_the_end(
    departures: LoopDepartures | None, timeline: Timeline | None, code: SourceCode | None, *, mixed_up: bool
) -> LoopDeparture | None:
    """The ranks that came to a call behind their loop, where calls of several places met."""
    found = departures.at_the_end if departures is not None else None
    if found is None or mixed_up:
        return found
    return found if timeline is not None and met_behind_its_loop(found, timeline, code) else None


def _skipped(batch: SkippedBatch | None, desyncs: Desyncs | None) -> SkippedBatch | None:
    """The batch that ranks passed over, if these left their loop before the others."""
    left = desyncs.of(Cause.LEFT) if desyncs is not None else ()
    return batch if batch is not None and any(desync.minority == batch.ahead for desync in left) else None
