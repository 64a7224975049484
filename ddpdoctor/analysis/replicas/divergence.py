"""The ways in which the replicas of a training can diverge: one type per way, each with what its rule reports.

Every variant is about the first step (or epoch) at which it shows. Which ranks are at fault is in `ranks`: the minority, the
ranks that did it, or all ranks where every rank does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from ddpdoctor.analysis.replicas.divergences.base import Diverged
from ddpdoctor.analysis.replicas.divergences.data import (
    PartialMetric,
    SameDraws,
    SameInputs,
    SameOrder,
    SameSamples,
    SamplesOverlap,
    UnevenBatches,
)
from ddpdoctor.analysis.replicas.divergences.gradients import (
    GradientsChanged,
    GradientsNotReduced,
    LocalNotFinite,
    ParameterOutside,
    ReadEarly,
    ReductionScaled,
)
from ddpdoctor.analysis.replicas.divergences.results import (
    CollectiveDiffers,
    LossComputedDifferently,
    StepNotReproducible,
    UnwrappedDiffers,
)
from ddpdoctor.analysis.replicas.divergences.steps import ModesDiffer, SettingsDiffer, StepSkipped, WeightsWritten

Divergence: TypeAlias = (
    StepSkipped | WeightsWritten | LocalNotFinite | GradientsNotReduced | ParameterOutside | GradientsChanged
    | ReductionScaled | SettingsDiffer | SameSamples | SameInputs | SamplesOverlap | SameOrder | SameDraws | ReadEarly
    | UnevenBatches | PartialMetric | StepNotReproducible | CollectiveDiffers | LossComputedDifferently
    | UnwrappedDiffers | ModesDiffer
)  # fmt: skip

V = TypeVar("V", bound=Diverged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergences:
    """Every way in which the ranks of a job diverge, in the order of a step."""

    steps: int
    """How many optimizer steps the job made."""
    world_size: int
    """The number of ranks."""
    found: tuple[Divergence, ...] = ()
    """What diverges, each way once, with its first step."""

    def of(self, variant: type[V]) -> tuple[V, ...]:
        """Those of one variant, in the order found."""
        return tuple(one for one in self.found if isinstance(one, variant))
