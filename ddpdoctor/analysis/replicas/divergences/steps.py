"""Ranks that step otherwise than their peers: steps skipped, weights written, other settings or modes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ddpdoctor.analysis.replicas.divergences.base import Diverged
from ddpdoctor.evidence.replicas import Side


class SkipCause(Enum):
    """How it is known that a rank skipped a step."""

    STEPS = "steps"
    """It has made fewer steps by the same forward."""
    POSITION = "position"
    """It is at another batch by the same forward."""
    FOUND_INF = "found_inf"
    """Its GradScaler found gradients that are not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkipped(Diverged):
    """Some ranks skipped an optimizer step that the others made."""

    cause: SkipCause
    """How it is known."""
    sides: tuple[Side, ...]
    """The ranks by the number of steps made, or by their position in the data."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    seen: int
    """The step at which the ranks were compared."""
    until: int | None = None
    """The last step that can be the one that was skipped; None where it is not known."""
    scale: float | None = None
    """The GradScaler's scale at that step; None for the other causes."""
    optimizer: str = ""
    """Which of several optimizers skipped it, where that is known."""


class WrittenAt(Enum):
    """What the lines of `WeightsWritten` are."""

    THE_WRITE = ""
    """Lines that wrote the weights."""
    A_LOAD = "loaded"
    """Lines that loaded a state dict."""
    THE_NEXT_FORWARD = "next forward"
    """The first forward after the write: the write itself was not seen."""
    THE_STEP = "between forward and step"
    """The optimizer step after the write, which came after the forward: the write itself was not seen."""


class HowWritten(Enum):
    """What ranks did to the parameters that differ since."""

    WROTE = "wrote"
    KEPT = "kept"
    """They kept them, and all others wrote them."""
    CHANGED_MODEL = "changed the model"
    """They added, replaced or removed parameters of the model: not all ranks have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsWritten(Diverged):
    """Some ranks wrote weights outside the optimizer."""

    tensors: tuple[str, ...]
    """The parameters that differ since."""
    total: int
    """The number of parameters."""
    since: int | None = None
    """The last audited step before it, where steps in between were not audited; None where the step itself is known."""
    shown: WrittenAt = WrittenAt.THE_NEXT_FORWARD
    """What `lines` are."""
    after_forward: bool = False
    """Whether they wrote them between the forward and the optimizer step, and not before the forward."""
    how: HowWritten = HowWritten.WROTE
    """What these ranks did."""


class SettingsAt(Enum):
    """What the lines of `SettingsDiffer` are."""

    THE_WRITE = ""
    """Lines that changed the setting."""
    GIVEN = "given"
    """Lines that gave it to the optimizer, or wrote it there."""
    THE_STEP = "step"
    """The steps that were made with it: the change itself was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDiffer(Diverged):
    """Ranks step with different optimizer settings."""

    names: tuple[str, ...]
    """The settings that tell the same ranks apart, the most telling first."""
    sides: tuple[Side, ...]
    """The ranks by the value of the first of them."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    shown: SettingsAt = SettingsAt.THE_STEP
    """What `lines` are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesDiffer(Diverged):
    """Ranks train with other modules in evaluation mode than their peers."""

    sides: tuple[Side, ...]
    """The ranks by what is in evaluation mode."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    set_here: bool = False
    """Whether `lines` put the modules into evaluation mode; else they are those of the forward."""
