"""Ranks that do not get their own part of the data, or draw the same random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ddpdoctor.analysis.replicas.divergences.base import Diverged
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.training_trace import ShareSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class SameSamples(Diverged):
    """All ranks draw the same samples in an epoch."""

    epoch: int
    """The epoch's number."""
    drawn: int
    """How many samples all ranks drew together."""
    unique: int
    """How many different samples these were."""
    shares: Mapping[int, ShareSeen] = field(default_factory=dict)
    """The part that the sampler of each rank draws, where each divides the data set; else nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameInputs(Diverged):
    """The model gets the same input on all ranks, or on several, in every step seen."""

    steps: int
    """The number of steps seen."""
    groups: tuple[tuple[int, ...], ...]
    """The ranks with equal inputs, by input, in order of their first rank: together `ranks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesOverlap(Diverged):
    """The ranks' parts of a data set overlap, or do not cover it."""

    epoch: int
    """The epoch's number."""
    drawn: int
    """How many samples all ranks drew together."""
    unique: int
    """How many different samples these were."""
    missing: int
    """How many samples no rank drew."""
    length: int
    """The length of the data set, 0 where it is not known."""
    without_them: bool = False
    """Whether the parts would not overlap without `ranks`."""
    shares: Mapping[int, ShareSeen] = field(default_factory=dict)
    """The part that the sampler of each rank draws, where each divides the data set; else nothing."""
    draws: Mapping[int, Frame] = field(default_factory=dict)
    """The `__iter__` of each rank's sampler that the program has written itself, where not all have `shares`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameOrder(Diverged):
    """An epoch repeats the shuffled order of an earlier one."""

    epoch: int
    """The number of the epoch that repeats it."""
    before: int
    """The number of the epoch that it repeats."""
    sampler: str
    """The sampler's class, empty where it is not known."""
    told: int | None = None
    """The epoch that the DistributedSamplers were at both times; None where that is not known, or was not the same."""
    made: Mapping[int, Frame] = field(default_factory=dict)
    """The lines that made these samplers."""
    told_at: Mapping[int, Frame] = field(default_factory=dict)
    """The lines that told them this epoch."""


class DrawnFor(Enum):
    """When a generator is drawn from."""

    DATA = "data"
    """Between two steps, where data is loaded."""
    MODEL = "model"
    """Between the forward and the end of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SameDraws(Diverged):
    """A random generator is in the same state on all ranks when they draw from it."""

    generator: str
    """The generator's name."""
    drawn_for: DrawnFor
    """When it is drawn from."""
    steps: int
    """In how many audited steps the generator was in the same state everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenBatches(Diverged):
    """Ranks train on batches of different sizes in the same step."""

    sides: tuple[Side, ...]
    """The ranks by their batch size."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    steps: int
    """In how many of the audited steps sizes differ."""
    last: int
    """In how many of these the batch was the last of an epoch on every rank."""
    audited: int
    """The number of audited steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialMetric(Diverged):
    """Ranks evaluate different data and never combine their results."""

    sides: tuple[Side, ...]
    """Each rank with how many samples it evaluated."""
