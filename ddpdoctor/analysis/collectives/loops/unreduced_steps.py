"""Ranks that went on stepping without a collective, while their peers wait in a reduction of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desyncs
from ddpdoctor.analysis.collectives.loops.iteration_skew import UnevenAccumulation
from ddpdoctor.analysis.collectives.recorders.timeline import NAMES_OF_DEFAULT_GROUP, IssuedCall
from ddpdoctor.analysis.crashes.failure import unique_ranks
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, StepCount

BARRIER = "barrier"
FURTHER_STEPS = (
    2  # optimizer steps beyond those of the peers, at least: a step is behind the reduction of its gradients
)


@dataclass(frozen=True, slots=True)
class UnreducedSteps:
    """The first ranks that made steps without any reduction, and ended or wait elsewhere."""

    ranks: tuple[int, ...] = ()
    """These ranks; empty where there are none."""
    steps: Mapping[int, int] = field(default_factory=dict)
    """The number of optimizer steps of every rank."""
    waiting: Mapping[int, IssuedCall] = field(default_factory=dict)
    """By rank, the call that the others wait in."""
    places: Mapping[int, Frame] = field(default_factory=dict)
    """By rank, the line of its last forward of a DDP model; of `ranks` that made one."""
    met: Mapping[int, IssuedCall] = field(default_factory=dict)
    """By rank, the call of `ranks` that met the reduction; empty where they ended."""


def derive(desyncs: Desyncs, calls: PerRank[CollectiveCalls], steps: PerRank[StepCount]) -> UnreducedSteps:
    """Ranks whose backward has reduced nothing: the loss is detached from DDP's output, or another module was called.

    Of ranks that ended with exit code 0: all had made their last collective before the reduction of gradients in which the others
    wait, and have begun iterations and made steps since. Of ranks that have not ended: they called no forward of a DDP model
    for their last steps, made further steps than the others, and wait in a call of their own that met that reduction.
    """
    made = {entry.rank: entry.value.steps for entry in steps if entry.value.steps is not None}
    of_rank = by_rank(calls)
    for desync in desyncs.of(Cause.LEFT):
        known = all(rank in made and rank in of_rank for rank in (*desync.minority, *desync.issued))
        if not desync.ended or desync.group.name or not desync.issued or not known:
            continue
        if not all(_in_a_reduction(of_rank[rank], issued) for rank, issued in desync.issued.items()):
            continue
        theirs = max(made[rank] for rank in desync.issued)
        alone = all(_went_on(of_rank[rank], desync.group.reached(rank), theirs) for rank in desync.minority)
        if alone and all(made[rank] >= theirs + FURTHER_STEPS for rank in desync.minority):
            last = {rank: of_rank[rank].forwards[-1].place for rank in desync.minority if of_rank[rank].forwards}
            return UnreducedSteps(ranks=desync.minority, steps=made, waiting=desync.issued, places=last)
    for desync in (*desyncs.of(Cause.EXTRA), *desyncs.of(Cause.MISSING), *desyncs.shapes):
        known = all(rank in made and rank in of_rank for rank in (*desync.minority, *desync.majority))
        if desync.ended or desync.counts or desync.group.name or not known:
            continue
        for ranks, others in ((desync.minority, desync.majority), (desync.majority, desync.minority)):
            if _met_a_reduction(ranks, others, desync.issued, of_rank, made):
                met, waiting = ({rank: desync.issued[rank] for rank in side} for side in (ranks, others))
                return UnreducedSteps(ranks=ranks, steps=made, waiting=waiting, met=met)
    return UnreducedSteps()


def _met_a_reduction(
    ranks: Sequence[int],
    others: Sequence[int],
    issued: Mapping[int, IssuedCall],
    calls: Mapping[int, CollectiveCalls],
    made: Mapping[int, int],
) -> bool:
    """Whether `ranks`, which made further steps without a DDP model, wait in a call of their own, and `others` in DDP's."""
    if not ranks or not others or not all(rank in issued for rank in (*ranks, *others)):
        return False
    further = min(made[rank] for rank in ranks) >= max(made[rank] for rank in others) + FURTHER_STEPS
    without = all(_stepped_without_ddp(calls[rank], made[rank]) for rank in ranks)
    return (
        further
        and without
        and all(_is_their_own(calls[rank], issued[rank]) for rank in ranks)
        and all(_in_a_reduction(calls[rank], issued[rank]) for rank in others)
    )


def _stepped_without_ddp(calls: CollectiveCalls, made: int) -> bool:
    """Whether the rank called no forward of a DDP model before its last optimizer steps, more than any forward had had."""
    if not calls.forwards:
        return True
    began = [forward.steps for forward in calls.forwards if forward.steps is not None]
    usual = max((after - before for before, after in pairwise(began)), default=1)
    return len(began) == len(calls.forwards) and made - began[-1] > FURTHER_STEPS * max(usual, 1)


def _is_their_own(calls: CollectiveCalls, issued: IssuedCall) -> bool:
    """Whether the user's code made this call, and not DDP."""
    return any(call.seq == issued.seq and call.group in NAMES_OF_DEFAULT_GROUP for call in calls.calls)


def ended_without_it(uneven: UnevenAccumulation | None, failures: Failures | None) -> bool:
    """Whether the ranks that did not reduce this forward stepped all the same and ended with 0, and those that did lost them."""
    if uneven is None or failures is None:
        return False
    if any(one.secondary_error is None and not one.exit.ended_by_launcher for one in failures.all):
        return False
    without = {rank for rank, reduced in uneven.reduced.items() if not reduced}
    stepped = without <= {*uneven.stepped} and without <= {*failures.finished}
    return stepped and {*uneven.reduced} - without <= {*unique_ranks(failures.lost)}


def _in_a_reduction(calls: CollectiveCalls, issued: IssuedCall) -> bool:
    """Whether the rank waits in a call that DDP made for its last forward, and not in one of the user's own."""
    if not calls.forwards or calls.forwards[-1].reduces is False or issued.op == BARRIER:
        return False
    return not _is_their_own(calls, issued)


def _went_on(calls: CollectiveCalls, seq: int, theirs: int) -> bool:
    """Whether the rank began further iterations after its call `seq`, or none at all, as it called no DDP model.

    A rank whose last forward of a DDP model is of a step that its peers began, too (`theirs` are the steps that these made), ran
    out of batches, and trained something else.
    """
    if calls.forwards:
        began = calls.forwards[-1].steps
        if began is not None and began <= theirs:
            return False
    elif not calls.steps:
        return True
    return sum(mark.seq >= seq for mark in calls.steps) > FURTHER_STEPS
