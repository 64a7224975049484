"""Where replicas part, and by what: what an analysis of the ranks' tracks found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.track import Line

Phase = Literal[
    "step skipped",
    "weights written",
    "local gradient",
    "not reduced",
    "outside",
    "changed after",
    "scale",
    "settings",
    "same data",
    "overlap",
    "same order",
    "same draws",
    "read early",
    "uneven",
    "metric",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One way in which the ranks part, at the first step (or epoch) where it shows.

    `ranks` are the culprits, and `tied` is True where no majority tells who is odd. `tensors` are those concerned, of
    `total`. `numbers` are what the message measures. `wrote` is whether `lines` are those that did it.
    """

    phase: Phase
    step: int
    ranks: tuple[int, ...]
    tied: bool = False
    tensors: tuple[str, ...] = ()
    total: int = 0
    sides: tuple[Side, ...] = ()
    why: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[int, Line] = field(default_factory=dict)
    wrote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergences:
    """All of them, the first step first. `steps` is how many steps the job made, `audited` how many were looked at."""

    steps: int
    audited: int
    world_size: int
    found: tuple[Divergence, ...] = ()


KINDS = (Divergences,)
