"""Ranks that went on stepping without a collective, while their peers wait in a reduction of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.analysis.collectives.desync import Cause, Desyncs
from ddpdoctor.analysis.collectives.timeline import IssuedCall
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, StepCount

FURTHER_STEPS = (
    2  # optimizer steps beyond those of the peers, at least: a step is behind the reduction of its gradients
)


@dataclass(frozen=True, slots=True)
class UnreducedSteps:
    """The first ranks that made steps without any reduction, and ended; nobody where `ranks` is empty.

    `steps` are the optimizer steps of every rank, `waiting` the call that the others wait in, and `places` where the ranks
    called their last forward of a DDP model, if any.
    """

    ranks: tuple[int, ...] = ()
    steps: Mapping[int, int] = field(default_factory=dict)
    waiting: Mapping[int, IssuedCall] = field(default_factory=dict)
    places: Mapping[int, Frame] = field(default_factory=dict)


def derive(desyncs: Desyncs, calls: PerRank[CollectiveCalls], steps: PerRank[StepCount]) -> UnreducedSteps:
    """Ranks whose backward has reduced nothing: the loss is detached from DDP's output, or another module was called.

    Of ranks that ended with exit code 0: all had made their last collective before the one in which the others wait, and have
    begun iterations and made steps since.
    """
    made = {entry.rank: entry.value.steps for entry in steps if entry.value.steps is not None}
    by_rank = {entry.rank: entry.value for entry in calls}
    for desync in desyncs.of(Cause.LEFT):
        known = all(rank in made and rank in by_rank for rank in (*desync.minority, *desync.issued))
        if not desync.ended or desync.group.name or not desync.issued or not known:
            continue
        least = max(made[rank] for rank in desync.issued) + FURTHER_STEPS
        alone = all(_went_on(by_rank[rank], desync.group.reached(rank)) for rank in desync.minority)
        if alone and all(made[rank] >= least for rank in desync.minority):
            last = {rank: by_rank[rank].forwards[-1].place for rank in desync.minority if by_rank[rank].forwards}
            return UnreducedSteps(ranks=desync.minority, steps=made, waiting=desync.issued, places=last)
    return UnreducedSteps()


def _went_on(calls: CollectiveCalls, seq: int) -> bool:
    """Whether the rank began further iterations after its call `seq`, or none at all, as it called no DDP model."""
    return not calls.steps or sum(mark.seq >= seq for mark in calls.steps) > FURTHER_STEPS
