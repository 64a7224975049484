"""The ways in which the replicas of a training can diverge: one type per way, each with what its rule reports.

Every variant is about the first step (or epoch) at which it shows. Which ranks are at fault is in `ranks`: the minority, the
ranks that did it, or all ranks where every rank does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, TypeVar

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.training_trace import ShareSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """What all variants have in common."""

    step: int
    """The optimizer step, counted from 0, at which it shows first; 0 where it is about an epoch."""
    ranks: tuple[int, ...]
    """The ranks at fault, in ascending order."""
    lines: Mapping[int, Frame] = field(default_factory=dict)
    """The line of the user's code that did it, or that shows it, by rank."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsWritten(Diverged):
    """Some ranks wrote weights outside the optimizer."""

    tensors: tuple[str, ...]
    """The parameters that differ since."""
    total: int
    """The number of parameters."""
    shown: WrittenAt = WrittenAt.THE_NEXT_FORWARD
    """What `lines` are."""
    after_forward: bool = False
    """Whether they wrote them between the forward and the optimizer step, and not before the forward."""


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
    NO_SYNC = "no_sync"
    AGAIN = "again"
    NO_MODEL = "no model"
    AUTOGRAD_GRAD = "autograd.grad"
    ADDED = "added"
    REPLACED = "replaced"
    UNFROZEN = "unfrozen"
    IGNORED = "ignored"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SameOrder(Diverged):
    """An epoch repeats the shuffled order of an earlier one."""

    epoch: int
    """The number of the epoch that repeats it."""
    before: int
    """The number of the epoch that it repeats."""
    sampler: str
    """The sampler's class, empty where it is not known."""


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
class ReadEarly(Diverged):
    """The result of an asynchronous collective is used, or may be, before it is complete."""

    op: str
    """The operation that the rank did not wait for, such as `all_reduce`."""
    used_by: str
    """The call that used it (`forward`, `step`, ...), empty where the handle was dropped."""


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
