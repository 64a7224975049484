"""What all kinds of divergence have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """What all variants have in common."""

    step: int
    """The optimizer step, counted from 0, at which it shows first; 0 where it is about an epoch."""
    ranks: tuple[int, ...]
    """The ranks at fault, in ascending order."""
    lines: Mapping[int, Frame] = field(default_factory=dict)
    """The line of the user's code that did it, or that shows it, by rank."""
