"""Gradients that are not finite, not averaged, changed after the average, or used before it is complete."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ddpdoctor.analysis.replicas.divergences.base import Diverged


class NonFiniteCause(Enum):
    """Where a value that is not finite came from."""

    INPUT = "input"
    LOSS = "loss"
    WEIGHTS = "weights"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNotFinite(Diverged):
    """Some ranks' own loss or gradients are NaN or infinite before anything is reduced."""

    tensors: tuple[str, ...] = ()
    """The parameters whose local gradient is not finite."""
    total: int
    """The number of gradients."""
    lost: bool = False
    """Whether a loss is not finite."""
    weights: tuple[str, ...] = ()
    """The parameters that differed between ranks before the forward; where they are the cause, those that were not finite."""
    weights_total: int = 0
    """The number of parameters of which `weights` are some: those that are not trained, too."""
    cause: NonFiniteCause = NonFiniteCause.UNKNOWN
    """Where it came from."""


class NotReducedCause(Enum):
    """Why DDP did not average a gradient."""

    BYPASSED = "bypassed"
    NO_FORWARD = "no forward"
    NO_SYNC = "no_sync"
    AGAIN = "again"
    NO_MODEL = "no model"
    AUTOGRAD_GRAD = "autograd.grad"
    ADDED = "added"
    REPLACED = "replaced"
    UNFROZEN = "unfrozen"
    IGNORED = "ignored"
    BY_HOOK = "by hook"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsNotReduced(Diverged):
    """Gradients reach the optimizer as each rank computed them."""

    tensors: tuple[str, ...]
    """The parameters whose gradients these are."""
    total: int
    """The number of parameters."""
    cause: NotReducedCause
    """Why DDP did not average them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterOutside(Diverged):
    """The optimizer steps parameters of no wrapped module, with gradients that differ."""

    tensors: tuple[str, ...]
    """These parameters."""
    total: int
    """The number of parameters."""
    made: bool = False
    """Whether `lines` make the first of them, or give it to the optimizer; else they are those of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientsChanged(Diverged):
    """Some ranks changed averaged gradients before the step."""

    tensors: tuple[str, ...]
    """The parameters whose gradients were changed."""
    total: int
    """The number of parameters."""
    tied: bool = False
    """Whether it cannot be decided which ranks changed them."""
    wrote: bool = False
    """Whether `lines` are those that changed them; else they are those that step with them."""
    left: bool = False
    """Whether `ranks` are the few that did not change them, while all others did so alike; lines that changed are theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionScaled(Diverged):
    """Reduced gradients are a multiple of the mean of the local ones."""

    factor: float
    """By what the mean of the local gradients was multiplied."""
    by_hook: bool = False
    """Whether a communication hook is registered; then `lines` are where."""
    tensors: tuple[str, ...] = ()
    """The parameters of these gradients, where the hook does not scale all of them alike; else empty."""
    total: int = 0
    """The number of parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEarly(Diverged):
    """The result of an asynchronous collective is used, or may be, before it is complete."""

    op: str
    """The operation that the rank did not wait for, such as `all_reduce`."""
    used_by: str
    """The call that used it (`forward`, `step`, ...), empty where the handle was dropped."""
