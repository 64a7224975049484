"""Results that differ although what they were computed from is equal, and copies of models that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ddpdoctor.analysis.replicas.divergences.base import Diverged


class Corrupted(Enum):
    """Where numbers changed or differ although no known code made the difference."""

    STEP = "step"
    """In the optimizer's step: all that it depends on was equal."""
    STATE = "state"
    """In the optimizer's state, in a step or after it."""
    MEMORY = "memory"
    """In the weights, between a step and the next forward, or between a forward and its step."""
    BUFFER = "buffer"
    """In a buffer, between two forwards."""
    PART = "part"
    """In this rank's part of a parameter on a device mesh, between two steps."""
    GRADIENT = "gradient"
    """In an averaged gradient, between the backward and the optimizer's step."""
    UNSEEN = "unseen"
    """In a step that was not audited, or between two of them."""
    NONDETERMINISTIC = "nondeterministic"
    """In the optimizer's step, which gives another result on every rank."""


class Repeated(Enum):
    """What came of a step when each rank made it again, twice, from its own copies of the inputs."""

    ONCE = "once"
    """Ranks at fault come to the weights of the others now."""
    AGAIN = "again"
    """Every rank comes to its own weights again."""
    NEVER = "never"
    """Ranks at fault come to other weights each time, and the others to their own again, if there are others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNotReproducible(Diverged):
    """From equal weights, gradients, state and settings some ranks came to other weights or state."""

    tensors: tuple[str, ...]
    """The parameters or the tensor of the state that differ."""
    at: Corrupted
    """Where it happened."""
    bits: tuple[int, ...] = ()
    """The bits of the one element that differs, 0 for the lowest; empty where several elements may differ."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    equal_at: int
    """The last audited step after which all ranks were equal."""
    optimizer: str = ""
    """The class of the optimizer, where its step is in question."""
    repeated: Repeated | None = None
    """What came of it when the step was made again; None where it was not on all ranks."""
    operation: str = ""
    """With `NEVER`, the first operation that returned something else."""
    devices: Mapping[int, str] = field(default_factory=dict)
    """The devices of the ranks at fault, where they are no CPUs."""
    loaded: bool = False
    """Whether all ranks had just loaded the weights or the state; `lines` are then where."""
    after_forward: bool = False
    """With `MEMORY`, whether it happened between a forward and the optimizer step, and not before the forward."""
    meanwhile: bool = False
    """With `MEMORY` or `UNSEEN`, whether `lines` are those that ran while it changed, on these ranks only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveDiffers(Diverged):
    """Ranks received different results from the same reduction of gradients."""

    tensors: tuple[str, ...]
    """The parameters whose reduced gradients differ."""
    total: int
    """The number of parameters."""
    tied: bool = False
    """Whether it cannot be decided which ranks received a wrong result."""
    devices: Mapping[int, str] = field(default_factory=dict)
    """The devices of the ranks at fault, where they are no CPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossComputedDifferently(Diverged):
    """Ranks with the same weights compute different outputs for the same batch."""

    module: str
    """The first module whose output differs, with its class."""
    modules: int
    """The number of modules."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    unstable: tuple[int, ...] = ()
    """The ranks that compute different outputs when they repeat the forward."""
    settings: tuple[str, ...] = ()
    """The settings that are not the same on all ranks, as text."""
    devices: Mapping[int, str] = field(default_factory=dict)
    """The devices of the ranks at fault, where they are no CPUs."""


class CopyUsed(Enum):
    """What is done with a copy of the model that is not the same on all ranks."""

    DIFFERENT = "different"
    """Ranks whose copies differ call it."""
    STALE = "stale"
    """Ranks call it whose copy nobody updates, while that of others is updated."""
    UNKNOWN = ""
    """No rank was seen to call it since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrappedDiffers(Diverged):
    """A model beside the wrapped ones is not the same on all ranks, and is meant to be."""

    name: str
    """How the program can reach it, as an expression."""
    kind: str
    """The name of its class; empty where it is not known."""
    moved: tuple[int, ...]
    """The ranks whose copy changed since it was equal everywhere last, or since the first look where it never was."""
    still: tuple[int, ...]
    """The ranks whose copy did not."""
    used: CopyUsed
    """What is done with it since."""
    used_on: tuple[int, ...] = ()
    """The ranks that do so."""
    writes: bool = False
    """Whether `lines` are those that write it; else they use it, or step."""
    tied: bool = False
    """Whether no majority decides which ranks are at fault."""
    at_end: bool = False
    """Whether it was equal after every audited step, and was not at the end."""
    was_equal: bool = True
    """Whether it was equal on all ranks once."""
