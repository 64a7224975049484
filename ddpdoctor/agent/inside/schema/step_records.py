"""The records of the training trace about one step: what its gradients come from, the optimizer, and its result."""

from typing import NamedTuple

from .model_records import NamedDigests
from .source_line import SourceLine


class Evaluating(NamedTuple):
    """The modules of a wrapped model that are in evaluation mode in a training step, and compute something else in it."""

    names: tuple[str, ...]
    """The first of them; one empty name where the wrapped module itself is in evaluation mode."""
    total: int
    """How many modules there are, those that `names` leaves out included."""
    digest: int
    """A checksum (CRC-32) over the mode of every module that computes something else in it."""
    line: SourceLine | None = None
    """The user's line that put the first of them into evaluation mode."""


class Backward(NamedTuple):
    """The forwards and the backward that the gradients of a step come from."""

    wrapped: int = 0
    """The number of forwards through a wrapper."""
    synchronised: bool | None = None
    """Whether DDP reduced gradients after the last of them (False inside `no_sync`); None without a forward."""
    batch: int = 0
    """The number of samples."""
    finite: bool = True
    """Whether all numbers given to the wrapper were finite."""
    input: str | None = None
    """A fingerprint of what was given to the wrapper first."""
    loss: float | None = None
    """The loss of the last `loss.backward()`."""
    forward: SourceLine | None = None
    """Where the wrapper was called last."""
    backward: SourceLine | None = None
    """Where `loss.backward()` was called last."""
    grad: SourceLine | None = None
    """Where `torch.autograd.grad` was called last."""
    load: SourceLine | None = None
    """Where weights were loaded last since the audited step before."""
    lost_at: int | None = None
    """The step, counted from 0, to which the first backward led whose loss was not finite; None while all were finite."""
    lost_line: SourceLine | None = None
    """Where that backward was called; None also where the loss lay on a device."""


class Gradients(NamedTuple):
    """The gradients that the optimizer steps with; all lists are in the order of `names`."""

    names: list[str] | None
    """The names of the parameters that have a gradient."""
    digests: str
    """The gradients' fingerprints, one after the other."""
    reduced: str
    """A projection of each gradient: the bytes of 64-bit floats, one after the other, in hexadecimal digits."""
    local: str
    """The same projection of the rank's own gradient, before DDP reduced it; nothing is meant where autograd accumulated none."""
    counts: list[int]
    """How often autograd accumulated one."""
    standings: list[str] | None
    """`reduced` for a parameter that DDP reduces; else why not: added, replaced, unfrozen, ignored, outside, no model."""
    origins: dict[str, SourceLine]
    """By name, the lines that made parameters what DDP does not reduce."""
    not_finite: tuple[str, ...] = ()
    """The trained parameters that are not finite; looked for only where a local gradient is not."""
    parities: str = ""
    """The gradients' parities, one after the other; empty where no model is wrapped."""


class Part(NamedTuple):
    """The part of a parameter on a device mesh that lies on this rank."""

    holder: int
    """The lowest rank that holds the same part."""
    digest: str
    """The part's fingerprint."""
    writes: int = 0
    """How often operations have written the parameter."""
    parity: str = ""
    """The part's parity; empty where it is not known."""
    bits: int = 0
    """The size of one element in bits; 0 where it is not known."""


class BatchPosition(NamedTuple):
    """The batch that was trained on last."""

    epoch: int
    """The number of the pass over its loader, from 0, among those that were trained on."""
    batches: int
    """The number of batches received in this pass."""


class Stepping(NamedTuple):
    """An optimizer that is about to step."""

    optimizer: str
    """The name of its class."""
    line: SourceLine | None
    """Where it was told to step."""
    settings: dict[str, str]
    """The options of its parameter groups, as text."""
    setting_lines: list[tuple[SourceLine, list[str]]]
    """The lines that gave it these options, each with their names, where nothing changed them since."""
    loaded: SourceLine | None
    """Where its state was loaded since its last step."""
    state: NamedDigests | None
    """Its state; None where each rank holds another part of it."""
    parts: dict[str, Part]
    """By name, its parameters on a device mesh."""
    state_parts: dict[str, Part] | None = None
    """What it keeps on a device mesh, by names like `weight.exp_avg`; None where that is nothing."""


class Averaging(NamedTuple):
    """The averagings of the weights that the job has made itself, over all ranks or in process groups."""

    made: int
    """The number of averagings so far."""
    local: int
    """The number of steps since the last one."""
    line: SourceLine | None
    """Where the last one was made."""
    members: list[int] | None = None
    """The ranks that made the last one; None for all."""


class Step(NamedTuple):
    """An audited step of an optimizer.

    `forwards`, `since` and `beside` together name the same step on all ranks.
    """

    step: int
    """The number of steps of wrapped parameters before this one."""
    forwards: int
    """The number of forwards through a wrapper so far."""
    since: int
    """The number of steps of wrapped parameters since the last of those forwards."""
    beside: int
    """For a step of no wrapped parameter, the number of such steps since then, this one included; 0 for any other."""
    shadowed: int
    """How many steps so far were those of peers, in which the rank only took part inside `Join`."""
    backward: Backward
    """What the gradients come from."""
    position: BatchPosition | None
    """The batch that was trained on last; None without a DataLoader."""
    scale: float | None
    """The scale of the GradScaler, where one is used."""
    stepping: Stepping
    """The optimizer before the step."""
    gradients: Gradients | None
    """The gradients that it steps with."""
    buffers: dict[str, str]
    """By name, the fingerprints of the models' buffers before the first forward."""
    weights: str
    """The key of the table of the weights before the first forward."""
    after: str
    """The key of the table of the weights after the step."""
    parts: dict[str, Part]
    """By name, the optimizer's parameters on a device mesh after the step."""
    random_before: dict[str, int]
    """A digest of each random generator before the first forward; empty at steps at which they are not read."""
    random_after: dict[str, int]
    """A digest of each random generator after the step; empty likewise."""
    bypassed: dict[str, SourceLine]
    """By the prefix of a model whose wrapper was not called, the line that called the model itself."""
    comm_hook: SourceLine | None
    """Where a communication hook was registered."""
    writes: dict[str, list[SourceLine]]
    """By what they changed (weights, gradients, settings, state, `buffer` and its name), lines outside forward, backward and
    step; in a replay, and at a few steps (weights; `given weights` between the backward and the step)."""
    averaging: Averaging | None = None
    """The averagings of the weights before the first forward; None where there was none."""
    left_out: bool = False
    """Whether a GradScaler left the step out: `after` are then the weights at that moment."""
    closure: bool = False
    """Whether the optimizer was given a closure: `gradients` are then those of its last call."""
    hook_of_torch: bool = False
    """Whether all communication hooks are PyTorch's own, and give all ranks the same result."""
    partly_watched: bool = False
    """Whether `writes` may lack lines that wrote weights: lines were not looked at all the time, or writes only counted."""
    evaluating: dict[str, Evaluating] | None = None
    """By the prefix of a model, what was in evaluation mode in its last forward; None for nothing."""
    buffer_writes: dict[str, int] | None = None
    """By name, how often each buffer of FSDP2 models was written since it was seen first; None without such a model."""
    reduced_among: list[int] | None = None
    """Where no model is wrapped, the members of the group in which most of the gradients were reduced; None for all ranks."""
    state_parts: dict[str, Part] | None = None
    """What the optimizer keeps on a device mesh after the step; None where that is nothing."""
    exchanged: bool = False
    """Whether the backward sent gradients of activations to the ranks that had computed these, with an all-to-all."""


class Overflow(NamedTuple):
    """A step that a GradScaler left out, because the gradients of this rank were not finite."""

    step: int
    """The number of steps before it."""
    forwards: int
    """The number of forwards through a wrapper so far."""
    scale: float | None
    """The scale of the GradScaler."""
    line: SourceLine | None
    """Where it was told to step."""


class UnwaitedWork(NamedTuple):
    """An asynchronous collective whose handle nobody waited for, or too late."""

    op: str
    """The function that was called."""
    step: int
    """The number of steps before it."""
    line: SourceLine | None
    """Where it was called."""
    used_by: str
    """`forward` or `step` where that used the result before it was there; nothing where the handle was thrown away."""
