"""What each rank wrote down of its own training: digests of weights, gradients, state and settings, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.evidence.audited_steps import StepSeen
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
class LastSettings:
    """What an optimizer was to step with next after its latest step."""

    steps: int
    """The number of its steps."""
    moment: str
    """When it was looked at; looks of other moments cannot be compared."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The options of its parameter groups, as text."""
    setting_lines: Mapping[str, Frame] = field(default_factory=dict)
    """The lines that gave it these options, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSteps:
    """What one of several optimizers did on one rank."""

    name: str
    """Its class."""
    steps: int
    """The number of its steps."""
    first: Frame | None
    """The user's line of its first step."""
    began: int = 0
    """How many steps the rank had made before that."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The options of its parameter groups then, as text."""
    setting_lines: Mapping[str, Frame] = field(default_factory=dict)
    """The lines that gave it these options, by name."""
    last: LastSettings | None = None
    """Those after its latest step; None where it was gone when training may have been over."""


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
    """Whether the pass reached its end."""
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
    draws: Frame | None = None
    """The `__iter__` of its sampler, or else of its sampler of batches, if the program has written it itself."""


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
    by_optimizer: tuple[OptimizerSteps, ...] = ()
    """Those of each optimizer, in the order of their first ones; none where its trace ends early."""
    forwards_made: int | None = None
    """How many wrapped forwards it made; None where its trace ends early."""
    never_probed: bool = False
    """Whether a probe batch was asked for, and no forward came before which it could run."""
    interval: int = 1
    """Every how many steps it looked last."""


KINDS = {Track: "training trace"}
