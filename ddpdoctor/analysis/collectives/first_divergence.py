"""Which of the divergences that the records of the ranks show came first: all others follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desyncs
from ddpdoctor.analysis.collectives.loops.iteration_skew import (
    ForkedForward,
    Iterations,
    IterationSkew,
    OtherForward,
    UnevenAccumulation,
)
from ddpdoctor.analysis.collectives.loops.loop_departures import How, LoopDeparture, LoopDepartures
from ddpdoctor.analysis.collectives.loops.loop_passes import SkippedBatch
from ddpdoctor.analysis.collectives.loops.unreduced_steps import UnreducedSteps, ended_without_it
from ddpdoctor.analysis.collectives.mispaired_objects import met_behind_its_loop
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import AbortedPastALoop
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence.source import SourceCode


@dataclass(frozen=True, slots=True)
class FirstDivergence:
    """How the ranks diverged first; the rule that tells of it is the only one that does."""

    by: (
        UnreducedSteps
        | UnevenAccumulation
        | LoopDeparture
        | ForkedForward
        | IterationSkew
        | OtherForward
        | AbortedPastALoop
        | SkippedBatch
        | None
    )
    """What the ranks did; None where only the calls in which they wait show it."""


def derive(
    iterations: Iterations | None,
    departures: LoopDepartures | None,
    unreduced: UnreducedSteps | None,
    desyncs: Desyncs | None,
    failures: Failures | None,
    aborted: AbortedPastALoop | None,
    timeline: Timeline | None,
    code: SourceCode | None,
) -> FirstDivergence:
    """What is known for certain before what is probable, and of these what came earlier in a step.

    Ranks that trained without their peers explain everything else. A forward whose gradients some ranks did not reduce explains
    the iterations after it, and a batch that was passed over explains the number of collectives before the next one.
    Where no recorder shows calls that met and gloo says that some did, what proves nothing by itself is believed.
    """
    seen = iterations if iterations is not None else Iterations(None)
    diverged = desyncs is not None and bool(desyncs.found)
    mixed_up = failures is not None and bool(failures.mismatched)
    by_gloo = mixed_up and not diverged
    skew = seen.out_of_step

    if unreduced is not None and unreduced.ranks:
        return FirstDivergence(unreduced)
    uneven = seen.accumulation
    if uneven is not None and (skew is not None or mixed_up or diverged or ended_without_it(uneven, failures)):
        return FirstDivergence(uneven)
    noticed = skew or (seen.left_out if by_gloo else None)
    if noticed is not None and departures is not None:
        departure = departures.before(noticed.iteration)
        if departure is not None and not (departure.how is How.IRREGULAR and noticed.own):
            return FirstDivergence(departure)
    if seen.forked is not None and (skew is not None or (desyncs is not None and desyncs.of(Cause.LEFT))):
        return FirstDivergence(seen.forked)
    if skew is not None:
        return FirstDivergence(skew)
    at_the_end = departures.at_the_end if departures is not None and not diverged else None
    if at_the_end is not None and (
        mixed_up or (timeline is not None and met_behind_its_loop(at_the_end, timeline, code))
    ):
        return FirstDivergence(at_the_end)
    if by_gloo:
        return FirstDivergence(seen.left_out or seen.other_forward or aborted)
    return FirstDivergence(_skipped(seen.passed_over, desyncs))


def _skipped(batch: SkippedBatch | None, desyncs: Desyncs | None) -> SkippedBatch | None:
    """The batch that ranks passed over, if these left their loop before the others."""
    left = desyncs.of(Cause.LEFT) if desyncs is not None else ()
    return batch if batch is not None and any(desync.minority == batch.ahead for desync in left) else None
