"""The format of `PID.sync.jsonl`, what a rank writes down while it trains: a JSON line `[kind, fields]` for each record.

`kind` is the name of the fields' type. The first record is `Joined`. A fingerprint is 16 hexadecimal digits. Weights at one
moment are written once, as a `Table`; other records refer to them by its key. Names of tensors and what else seldom changes
are None where they are those of the record of the same kind before it, in the same segment.

The trace of a long run is cut into segments: `PID.sync.jsonl`, `PID.1.sync.jsonl`, and so on. Each begins with the records
`Joined`, `ModelListing`, `Wrapped`, `BufferBroadcasts` and `WrappedTwice` of all segments before it, and refers to no table of an
earlier one.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from .source_line import SourceLine

VERSION = 3
SAMPLED = 8  # elements a tensor whose values are written down
SUFFIX = "sync.jsonl"


def segment_name(number: int) -> str:
    """What the name of a rank's segment ends with, after its process number and a dot."""
    return f"{number}.{SUFFIX}" if number else SUFFIX


class Joined(NamedTuple):
    """Who writes the trace, and how. Its first two fields stay where they are in every version."""

    version: int
    """`VERSION` of the writer."""
    rank: int | None
    """The writer's rank in the job."""
    host: str
    """The writer's host."""
    method: str
    """How fingerprints are made; ranks with different methods cannot be compared."""
    every: int
    """Every how many steps the writer looks; 0 as often as the budget allows."""
    replay: bool = False
    """Whether it looks closely at some steps of a run before this one."""


class TensorRow(NamedTuple):
    """A parameter or buffer of a model before it is wrapped."""

    role: str
    """`parameter` or `buffer`."""
    name: str
    """Its name in the user's module."""
    dtype: str
    """Its dtype; for a DTensor also how it lies on its mesh."""
    shape: list[int]
    """Its shape."""
    stride: list[int] | str
    """Its strides, or the name of the layout of a tensor that has none."""
    requires_grad: bool
    """Whether autograd computes a gradient for it."""
    tied_to: str
    """The name of an earlier tensor that it is the same as, or nothing."""


class ModelListing(NamedTuple):
    """A model that is about to be wrapped."""

    tensors: list[TensorRow]
    """Its parameters and buffers."""


class Wrapped(NamedTuple):
    """A model was wrapped for the first time."""

    line: SourceLine | None
    """Where."""
    ranks: list[int] | None = None
    """The members of the wrapper's process group; None for all ranks."""


class BufferBroadcasts(NamedTuple):
    """What a wrapper does with the buffers of its model; for a model that is wrapped again the last record holds."""

    prefix: str
    """What the names of the model's tensors begin with."""
    broadcasts: bool
    """Whether the wrapper copies rank 0's buffers to all ranks before each forward in training."""
    ignored: list[str]
    """The buffers that it leaves out."""


class WrappedTwice(NamedTuple):
    """Two wrappers of one model were called in one step."""

    line: SourceLine
    """Where the second one was made."""


class Samples(NamedTuple):
    """Elements of some tensors of one dtype: of each tensor `SAMPLED` evenly spread ones, or all where it has no more.

    Of a single tensor there may be more.
    """

    tensors: list[int] | None
    """Which tensors of the table, by place in it; None for all of them, in order."""
    dtype: str
    """Their dtype."""
    elements: str
    """The bytes of their elements, one after the other, in hexadecimal digits."""


class Table(NamedTuple):
    """The weights at one moment."""

    phase: str
    """`start` after a wrap, `weights` before a step, `after` it, `last` at the end or before weights are loaded."""
    key: str
    """What stands for these names and fingerprints in other records."""
    names: list[str] | None
    """The names of the tensors."""
    digests: str
    """Their fingerprints, one after the other."""
    samples: list[Samples]
    """Elements of the tensors, in row-major order."""
    shapes: list[list[int]] | None
    """The shape of each tensor."""


class NamedDigests(NamedTuple):
    """Tensors and their fingerprints."""

    names: list[str] | None
    """The names of the tensors."""
    digests: str
    """Their fingerprints, one after the other."""


class Evaluating(NamedTuple):
    """The modules of a wrapped model that are in evaluation mode in a training step, and compute something else in it."""

    names: tuple[str, ...]
    """The first of them; one empty name where the wrapped module itself is in evaluation mode."""
    total: int
    """How many there are."""
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
    """Where weights were loaded since the step before."""


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
    """Of one element."""


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
    """The averagings of the weights over all ranks that the job has made itself."""

    made: int
    """The number of averagings so far."""
    local: int
    """The number of steps since the last one."""
    line: SourceLine | None
    """Where the last one was made."""


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
    """By what they changed (weights, gradients, settings, state), lines outside forward, backward and step; in a replay, and at
    a few steps (weights; `given weights` between the backward and the step)."""
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


class StepVersions(NamedTuple):
    """How often operations had written tensors, by PyTorch's own counters."""

    begin: int
    """The weights before the first forward."""
    state: int
    """The optimizer's state before the step."""
    after: int
    """The weights after the step."""
    wrapped: int | None = None
    """The weights when the last model was wrapped, in the first audited step after that; None in others."""


class Integrity(NamedTuple):
    """What tells an error of the hardware from one of the code, for the step before it with the same first three fields.

    Strings hold 16 digits for each parameter of the wrapped models, in the order of the tables of weights.
    """

    forwards: int
    """Those of the step."""
    since: int
    """That of the step."""
    beside: int
    """That of the step."""
    versions: StepVersions
    """Writes by operations."""
    reduced: str
    """The fingerprints of the gradients when the backward returned, `-` for none; empty where that was not seen."""
    before: str
    """The parities of the weights before the first forward; empty where they are those after the step before, or unknown.

    They are always there in the first audited step after a model was wrapped."""
    after: str
    """The parities of the weights after the step."""
    buffer_writes: list[int]
    """How often each of the step's buffers was written since it was seen first; one that was replaced counts as written."""
    buffers: str
    """The parities of these buffers; `-` for those that nobody may need."""
    given: str = ""
    """The fingerprints of the weights right before the step; empty where they were not looked at: no operation has written
    them since the forward."""
    given_parities: str = ""
    """The parities of these weights."""
    gradient_writes: int | None = None
    """How often operations have written the gradients between the return of the backward and the step; None where one was
    replaced, and where either was not seen."""


class Recomputed(NamedTuple):
    """A step that its rank has made again, twice, from copies of its inputs; for the step with the same first three fields.

    Strings hold 16 digits for each parameter of the wrapped models, in the order of the tables of weights.
    """

    forwards: int
    """Those of the step."""
    since: int
    """That of the step."""
    beside: int
    """That of the step."""
    given: str
    """The fingerprints of the weights right before the step."""
    first: str
    """Those after the first repetition."""
    second: str
    """Those after the second one."""
    parity: str
    """The parities of the weights after the first repetition."""
    operation: str
    """The first operation that returned something else in the second repetition; empty for none."""
    failed: str
    """Why the step could not be made again; empty where it could."""


class Device(NamedTuple):
    """The device that a rank trains on."""

    name: str
    """Its model and its unique number, as far as PyTorch tells; empty for a CPU."""


class Probe(NamedTuple):
    """A forward of the same batch on all ranks, beside the training."""

    step: int
    """The number of steps before it."""
    forwards: int
    """The number of forwards through a wrapper so far."""
    weights: str
    """The key of the table of the weights."""
    input: str
    """The fingerprint of the batch, and of the model's buffers."""
    modules: list[str]
    """The modules whose output was seen, with their classes, in the order in which they returned."""
    outputs: str
    """Their outputs' fingerprints."""
    again: str
    """The same of a second run."""
    settings: dict[str, str]
    """What the result may depend on besides: the device, the number of threads, precision and kernels."""


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


class Share(NamedTuple):
    """The part of a data set that a sampler draws."""

    rank: int
    """The number of the part, from 0."""
    replicas: int
    """How many parts there are."""
    epoch: int
    """The epoch that it was told, or 0."""
    made: SourceLine | None
    """Where it was made."""
    told: SourceLine | None
    """Where it was last told its epoch."""
    seed: int | None = None
    """From which it shuffles; None where that is not known."""


class Epoch(NamedTuple):
    """A pass over a data loader that was trained on."""

    loader: int
    """The number of the loader, from 0, among those that were trained on."""
    number: int
    """The number of the pass over this loader, from 0, among those that were trained on."""
    length: int | None
    """The length of the loader's data set, where it has one."""
    batches: int
    """The number of batches received."""
    finished: bool
    """Whether the pass came to its end."""
    line: SourceLine | None
    """Where the pass began."""
    sampler: str
    """The name of the sampler's class."""
    indices: str | None
    """The indices drawn, in order: 64-bit integers, compressed by zlib, in base64; None where they are not known."""
    data: str = ""
    """What stands for what the data set keeps; empty where that is not known."""
    share: Share | None = None
    """The part of the data set that its sampler draws; None where it divides nothing."""


class Evaluation(NamedTuple):
    """Forwards in evaluation mode between two training steps."""

    step: int
    """The number of training steps before them."""
    batches: int
    """The number of forwards."""
    samples: int
    """The number of samples."""
    input: str
    """Fingerprints of the first inputs, one after the other."""
    collectives: int
    """The number of collectives that the user's code called from the first forward to the next training step."""
    line: SourceLine | None
    """Where the first of them was called."""


class LastWeights(NamedTuple):
    """The weights with which the models in training end: at the end of the job, or where other models follow."""

    step: int
    """The number of steps made."""
    key: str
    """The key of the table of the weights."""
    local: int = 0
    """The number of steps since the job itself averaged the weights last; 0 where it never did."""
    writes: int | None = None
    """How often operations wrote one of the parameters from its first step to the latest; None where nobody counted."""
    later: int | None = None
    """How often they wrote it since."""
    moment: str = "end"
    """When they were looked at: `step` right after the latest step, `pass N` where the Nth pass over a loader ended, `load`
    before a state dict was loaded, `leave` where the process group was destroyed, and `end`."""


class LastState(NamedTuple):
    """What the only optimizer that steps the models in training keeps at the end."""

    step: int
    """The number of steps made."""
    shadowed: int
    """How many of them were those of peers, in which the rank only took part inside `Join`."""
    names: list[str]
    """The names of the tensors."""
    digests: str
    """Their fingerprints, one after the other."""
    moment: str = "end"
    """When it was looked at, as in `LastWeights`."""
    later: int | None = None
    """How often operations wrote one of the tensors since the latest step; None where that is not known."""


class UnwrappedModel(NamedTuple):
    """A model beside the wrapped ones."""

    name: str
    """How the program can reach it, as an expression: `ema`, `self.teacher`."""
    kind: str
    """Its class; for a list of tensors that of the object that keeps it."""
    tensors: int
    """The number of its parameters."""
    digest: str
    """One fingerprint of them all."""


class UnwrappedModels(NamedTuple):
    """The models beside the wrapped ones right after an audited step, or at the end."""

    step: int
    """The number of the step."""
    forwards: int
    """That of the step."""
    since: int
    """That of the step."""
    beside: int
    """That of the step."""
    phase: str
    """`step` after a step, `end` at the end of the process."""
    models: list[UnwrappedModel]
    """Those that were known."""


class UnwrappedUse(NamedTuple):
    """The first use of a model beside the wrapped ones since the last audited step."""

    name: str
    """The name of the model."""
    how: str
    """`forward`, or `state_dict`."""
    step: int
    """The number of steps before it."""
    line: SourceLine | None
    """The user's line."""


class UnwrappedWrite(NamedTuple):
    """A line that changed a model beside the wrapped ones between a step and the next forward."""

    name: str
    """The name of the model."""
    line: SourceLine
    """The user's line."""


class End(NamedTuple):
    """The process ended in order."""

    steps: int
    """The number of steps made."""
    forwards: int
    """The number of forwards through a wrapper."""
    interval: int
    """Every how many steps it looked in the end."""
    never_probed: bool = False
    """Whether a probe batch was asked for, and no forward came before which it could run."""


TraceRecord: TypeAlias = (
    Joined
    | ModelListing
    | Wrapped
    | BufferBroadcasts
    | WrappedTwice
    | Table
    | Step
    | Integrity
    | Recomputed
    | Device
    | Probe
    | Overflow
    | UnwaitedWork
    | Epoch
    | Evaluation
    | LastWeights
    | LastState
    | UnwrappedModels
    | UnwrappedUse
    | UnwrappedWrite
    | End
)
