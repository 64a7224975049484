"""What each rank wrote down of its own training: digests of weights, gradients, state and settings, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.evidence.frames import Frame


def model_prefix(name: str) -> str:
    """What the names of all tensors of one model begin with: nothing for the first model, then `model2:`, `model3:`."""
    numbered = re.match(r"model\d+:", name)
    return numbered.group() if numbered else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The fingerprints of named tensors at one moment."""

    digests: Mapping[str, str]
    """Name to fingerprint."""
    samples: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    """A few elements of each tensor: the place in row-major order, and the value as text."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of tensors with samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorKind:
    """A parameter or buffer as it was before the model was wrapped."""

    role: str
    """`parameter` or `buffer`."""
    name: str
    """Its name in the user's model."""
    structure: Mapping[str, str]
    """Each aspect (dtype, shape, stride, requires_grad, ties) as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """What became of one parameter's gradient by the time of the step."""

    digest: str
    """The fingerprint of what the optimizer gets."""
    reduced: float
    """The projection of what the optimizer gets."""
    local: float | None
    """The projection of the rank's own gradient before it was reduced; None where autograd accumulated none."""
    count: int
    """How often a gradient was accumulated."""
    standing: str
    """`reduced` for a parameter that DDP reduces, else why it does not: added, replaced, unfrozen, ignored, outside, no
    model."""
    parity: int | None = None
    """The exclusive or of all 64-bit words of what the optimizer gets; None where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged:
    """The averagings of the weights over all ranks that the job has made itself."""

    made: int
    """How many averagings the job has made so far."""
    local: int
    """How many steps since the last one."""
    line: Frame | None = None
    """The user's line that made the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """What tells an error of the hardware from one of the code, at one step."""

    wrapped: int | None = None
    """How often operations had written the weights when the last model was wrapped; None but in the first audited step."""
    begin: int
    """How often operations had written the weights before the first forward."""
    buffers: Mapping[str, int] = field(default_factory=dict)
    """How often they had written each buffer before the first forward; one that was replaced counts as written."""
    state: int
    """How often they had written the optimizer's state before the step."""
    end: int
    """How often they had written the weights after the step."""
    reduced: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of the gradients when the backward returned, by name; empty where that was not seen."""
    before: Mapping[str, int] = field(default_factory=dict)
    """The exclusive or of all 64-bit words of each parameter before the first forward, by name; empty where it is not known."""
    after: Mapping[str, int] = field(default_factory=dict)
    """The same after the step."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of the weights right before the step, by name; empty where no operation has written them since the
    forward, and where they were not looked at."""
    given_parities: Mapping[str, int] = field(default_factory=dict)
    """The exclusive or of all 64-bit words of each of these."""
    gradient_writes: int | None = None
    """How often operations have written the gradients between the return of the backward and the step; None where that is
    not known."""
    buffers_before: Mapping[str, int] = field(default_factory=dict)
    """The same of buffers that wrappers leave to the ranks, before the first forward; known of those that nothing wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """A step that its rank has made again, twice, from copies of its inputs."""

    given: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of the weights right before the step, by name."""
    first: Mapping[str, str] = field(default_factory=dict)
    """Those after the first repetition."""
    second: Mapping[str, str] = field(default_factory=dict)
    """Those after the second one."""
    parity: Mapping[str, int] = field(default_factory=dict)
    """The exclusive or of all 64-bit words of each parameter after the first repetition, by name."""
    operation: str = ""
    """The first operation that returned something else in the second repetition; empty for none."""
    failed: str = ""
    """Why the step could not be made again; empty where it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSeen:
    """A forward of the same batch on all ranks, beside the training."""

    step: int
    """The number of the next step."""
    forwards: int
    """Wrapped forwards so far."""
    weights: str
    """What stands for the weights: equal where they are."""
    input: str
    """A fingerprint of the batch and of the model's buffers."""
    outputs: Mapping[str, str]
    """The fingerprint of each module's output, in the order in which they returned."""
    again: Mapping[str, str]
    """The same of a second run."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the result may depend on besides."""

    def changed(self, module: str) -> bool:
        """Whether both runs told the output of this module, and it was not the same."""
        return self.again.get(module, self.outputs.get(module)) != self.outputs.get(module)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMark:
    """What tells who wrote the part of a parameter on a device mesh that lies on one rank."""

    writes: int
    """How often operations have written the parameter."""
    parity: int
    """The exclusive or of all 64-bit words of the part."""
    bits: int
    """The size of one element in bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    """One audited step. `forwards`, `since` and `beside` align the ranks."""

    step: int
    """The number of the optimizer step, from 0."""
    forwards: int
    """Wrapped forwards so far."""
    since: int
    """Steps since the last wrapped forward."""
    weights: str
    """The key in `Track.tables` of the weights before the forward."""
    after: str
    """The key in `Track.tables` of the weights after the step."""
    beside: int = 0
    """For a step of no wrapped parameter, which is not counted: the number of such steps since the last counted one."""
    position: tuple[int, int] | None = None
    """The epoch and the batch that the data loader gave last, as it counts them; None without a DataLoader."""
    shadowed: int = 0
    """How many of the steps so far were its peers', which this rank only shadowed inside `Join`."""
    wrapped: int = 0
    """Forwards of wrappers since the last step."""
    synchronised: bool | None = None
    """Whether DDP was to reduce in the last backward; None where no wrapper was called."""
    batch: int = 0
    """The number of samples in the last input."""
    input: str | None = None
    """The fingerprint of the last input; None where it holds no tensor."""
    loss: float | None = None
    """The last loss; None where it is not known."""
    scale: float | None = None
    """The scale of the GradScaler; None without one."""
    optimizer: str = ""
    """The class of the optimizer."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The optimizer's options as text."""
    setting_lines: Mapping[str, Frame] = field(default_factory=dict)
    """The user's line that gave the optimizer each setting (made it, loaded it, stepped its schedule), where nothing
    changed it since."""
    loaded: Frame | None = None
    """The user's line that loaded the optimizer's state since its last step."""
    state: Mapping[str, str] | None = None
    """The fingerprints of the optimizer's state before the step; None where it has none."""
    buffers: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of the model's buffers."""
    buffer_writes: Mapping[str, int] = field(default_factory=dict)
    """How often each of these was written since it was seen first; known of models that no wrapper holds (FSDP2)."""
    left_out: bool = False
    """Whether a GradScaler left the step out; `after` is then what the weights were at that moment."""
    gradients: Mapping[str, Gradient] = field(default_factory=dict)
    """By the parameter's name."""
    modes: Mapping[str, int] = field(default_factory=dict)
    """A checksum over the modes of the modules of each model that has some in evaluation mode, by the model's prefix."""
    evaluating: str = ""
    """These modules as text: the first ones of each model, and how many; empty for none."""
    line: Frame | None = None
    """The user's line that stepped."""
    lines: Mapping[str, Frame] = field(default_factory=dict)
    """The user's line of each call: forward, backward, grad, load (of weights since the last step), or eval (which put modules
    into evaluation mode that are in it in this step)."""
    bypassed: Mapping[str, Frame] = field(default_factory=dict)
    """The user's lines that called a module whose wrapper was not called, by what the names of its tensors begin with."""
    origins: Mapping[str, Frame] = field(default_factory=dict)
    """The user's lines that made a parameter one that DDP does not reduce, by its name."""
    not_finite: tuple[str, ...] = ()
    """The trained parameters that were not finite right before the step; looked for only where a local gradient was not, and
    never with a closure."""
    comm_hook: Frame | None = None
    """The user's line that registered a communication hook."""
    closure: bool = False
    """Whether the optimizer was given a closure, which computes gradients and losses inside the step."""
    hook_of_torch: bool = False
    """Whether all hooks that were registered are PyTorch's own, and give all ranks the same gradients."""
    random: tuple[Mapping[str, int], ...] = ()
    """A digest of each random generator when the observed part of the step began, and when it ended; empty where not read."""
    finite: bool = True
    """Whether all numbers given to the wrapper were finite."""
    parts_before: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Like `parts`, before the step."""
    parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """For each parameter on a device mesh, the lowest rank that holds the same part, and the part's fingerprint."""
    part_marks_before: Mapping[str, PartMark] = field(default_factory=dict)
    """Like `part_marks`, before the step."""
    part_marks: Mapping[str, PartMark] = field(default_factory=dict)
    """Of each of `parts` what tells who wrote it."""
    state_parts_before: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Like `parts`, of the optimizer's state before the step."""
    state_parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """The same after the step."""
    state_marks_before: Mapping[str, PartMark] = field(default_factory=dict)
    """Like `part_marks`, of the optimizer's state before the step."""
    state_marks: Mapping[str, PartMark] = field(default_factory=dict)
    """The same after the step."""
    averaging: Averaged | None = None
    """The averagings of the weights before this step; None where there was none."""
    recomputed: Recomputed | None = None
    """What came of it when its rank made it again; None where it did not."""
    integrity: Integrity | None = None
    """What tells an error of the hardware from one of the code; None where no model is wrapped."""
    writes: Mapping[str, tuple[Frame, ...]] = field(default_factory=dict)
    """The user's lines that changed weights, gradients, settings or state outside forward, backward and step; sought in
    a replay. Those of weights are sought at a few steps of any run; `given weights` are those between backward and step."""
    partly_watched: bool = False
    """Whether `writes` may lack lines that wrote weights."""

    @property
    def key(self) -> tuple[int, int, int]:
        """What it has in common with the steps of other ranks that belong to it."""
        return self.forwards, self.since, self.beside

    @property
    def following(self) -> int:
        """The number of the step after it."""
        return self.step + (not self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowSeen:
    """A step that a GradScaler left out, because the gradients of this rank were not finite."""

    step: int
    """The number of the step."""
    forwards: int
    """Wrapped forwards so far."""
    scale: float | None = None
    """The GradScaler's scale."""
    line: Frame | None = None
    """The user's line that called it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwaitedSeen:
    """An asynchronous collective whose handle was dropped before anybody waited for it."""

    op: str
    """The function, such as `all_reduce`."""
    step: int
    """How many steps had been made."""
    line: Frame | None = None
    """The user's line that called it."""
    used_by: str = ""
    """`forward` or `step` where that read the result before it was complete; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSeen:
    """The part of a data set that a sampler draws."""

    rank: int
    """The number of the part."""
    replicas: int
    """How many parts there are."""
    epoch: int
    """The epoch that it was told, or 0."""
    made: Frame | None = None
    """The user's line that made the sampler."""
    told: Frame | None = None
    """The user's line that told it its epoch last."""
    seed: int | None = None
    """From which it shuffles; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSeen:
    """One pass over a data loader that was trained on."""

    loader: int
    """The number of the data loader among those trained on."""
    number: int
    """The number of the pass among those trained on."""
    batches: int
    """How many batches were drawn."""
    finished: bool
    """Whether the pass came to its end."""
    length: int | None
    """The length of the data set; None where it has none."""
    indices: tuple[int, ...] | None
    """In the order drawn; None where the data set has none."""
    sampler: str = ""
    """The class of the sampler."""
    line: Frame | None = None
    """The user's line that iterates."""
    data: str = ""
    """What stands for what the data set keeps; empty where that is not known."""
    share: ShareSeen | None = None
    """The part of the data set that its sampler draws; None where it divides nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSeen:
    """Forwards in evaluation mode between two training steps."""

    step: int
    """The number of the next step."""
    batches: int
    """How many forwards there were."""
    samples: int
    """How many samples these forwards had in all."""
    collectives: int
    """How many collectives the user's code called after them, before training continued."""
    input: str
    """A fingerprint of all inputs."""
    line: Frame | None = None
    """The user's line of the last forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrappedSeen:
    """A model beside the wrapped ones, at one moment."""

    name: str
    """How the program can reach it, as an expression."""
    key: tuple[int, int, int]
    """That of the step before."""
    step: int
    """The number of steps before, that one not counted; at the end the number of all steps."""
    digest: str
    """The fingerprint of its weights."""
    at_end: bool = False
    """Whether this is how it was when the rank ended."""
    kind: str = ""
    """The name of its class; empty in cases of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrappedUsed:
    """A model beside the wrapped ones was called, or its weights were asked for."""

    name: str
    """The name of the model."""
    how: str
    """`forward`, or `state_dict`."""
    step: int
    """How many steps had been made."""
    line: Frame | None = None
    """The user's line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The weights of the models in training: at the end, or where other models follow."""

    step: int
    """How many steps had been made."""
    weights: str
    """The key in `Track.tables`."""
    local: int = 0
    """How many steps were made since the job averaged its weights; 0 where it never did."""
    writes: int | None = None
    """How often operations wrote one of the parameters from its first step to the latest; None where nobody counted."""
    later: int | None = None
    """How often they wrote it since."""
    moment: str = "end"
    """When they were looked at; looks of other moments cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftState:
    """What the only optimizer of the models in training kept at the end."""

    step: int
    """How many steps had been made."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of each tensor, by name."""
    shadowed: int = 0
    """How many of the steps were its peers', which this rank only shadowed inside `Join`."""
    moment: str = "end"
    """When it was looked at; looks of other moments cannot be compared."""
    later: int | None = None
    """How often operations wrote one of the tensors since the latest step; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One rank's training."""

    method: str
    """How fingerprints are made; ranks with different methods cannot be compared."""
    every: int
    """Every how many steps the rank was audited; 0 as often as the budget allows."""
    replayed: bool = False
    """Whether this run looked closely at some steps of a run before it."""
    kinds: tuple[TensorKind, ...] = ()
    """The parameters and buffers before the models were wrapped."""
    wrap_lines: tuple[Frame | None, ...] = ()
    """The user's lines that wrapped its models, in order."""
    replicas: frozenset[int] | None = None
    """The ranks that all its wrappers reduce gradients among, or the program where it wraps nothing; None for all ranks."""
    start: str | None = None
    """The key of the weights after the last wrap that came before any step."""
    left: tuple[Left, ...] = ()
    """The weights with which models ended."""
    left_state: LeftState | None = None
    """The optimizer's state at the end; None where it is not known, or several optimizers stepped wrapped models."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """The weights at the moments that other fields refer to, by key."""
    steps: tuple[StepSeen, ...] = ()
    """The audited steps."""
    left_out: tuple[StepSeen, ...] = ()
    """Audited steps that a GradScaler left out."""
    broadcasts_buffers: Mapping[str, bool] = field(default_factory=dict)
    """By what the names of a model's tensors begin with, whether its wrapper copies rank 0's buffers to all ranks."""
    ignored_buffers: frozenset[str] = frozenset()
    """The buffers that such a wrapper leaves out."""
    epochs: tuple[EpochSeen, ...] = ()
    """The passes over data loaders."""
    evaluations: tuple[EvaluationSeen, ...] = ()
    """Runs of forwards in evaluation mode, in order."""
    overflows: tuple[OverflowSeen, ...] = ()
    """The steps that a GradScaler left out."""
    device: str = ""
    """The model and the number of the device; empty for a CPU."""
    probes: tuple[ProbeSeen, ...] = ()
    """Forwards of the probe batch."""
    unwaited: tuple[UnwaitedSeen, ...] = ()
    """Asynchronous collectives that nobody waited for."""
    unwrapped: tuple[UnwrappedSeen, ...] = ()
    """The models beside the wrapped ones, at each moment at which they were looked at."""
    unwrapped_uses: tuple[UnwrappedUsed, ...] = ()
    """What was done with them."""
    unwrapped_writes: Mapping[str, Frame] = field(default_factory=dict)
    """The user's line that writes one, by its name, where it was seen."""
    steps_made: int | None = None
    """How many steps the rank made; None where its trace ends early."""
    forwards_made: int | None = None
    """How many wrapped forwards it made; None where its trace ends early."""
    never_probed: bool = False
    """Whether a probe batch was asked for, and no forward came before which it could run."""
    interval: int = 1
    """Every how many steps it looked last."""


KINDS = {Track: "training trace"}
