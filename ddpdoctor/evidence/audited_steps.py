"""What a rank recorded of one audited step: fingerprints of batch, gradients, weights and state, and the lines around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.evidence.frames import Frame


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
    """The averagings of the weights that the job has made itself, over all ranks or in process groups."""

    made: int
    """How many averagings the job has made so far."""
    local: int
    """How many steps since the last one."""
    line: Frame | None = None
    """The user's line that made the last one."""
    members: frozenset[int] | None = None
    """The ranks that made the last one; None for all."""


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
    lost_at: int | None = None
    """The step, counted from 0, of the rank's first loss that was not finite; None while all were finite."""
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
    a replay. Those of weights are sought at a few steps of any run; `given weights` are those between backward and step,
    and `buffer` with its name those of a buffer that is left to the ranks."""
    partly_watched: bool = False
    """Whether `writes` may lack lines that wrote weights."""
    exchanged: bool = False
    """Whether the backward sent gradients of activations to the ranks that had computed these, with an all-to-all."""

    @property
    def key(self) -> tuple[int, int, int]:
        """What it has in common with the steps of other ranks that belong to it."""
        return self.forwards, self.since, self.beside

    @property
    def following(self) -> int:
        """The number of the step after it."""
        return self.step + (not self.left_out)
