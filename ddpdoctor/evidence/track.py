"""What each rank wrote down of its own training: digests of weights, gradients, state and settings, step by step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A place in the user's code."""

    file: str
    line: int
    function: str


def model_prefix(name: str) -> str:
    """What the names of all tensors of one model begin with: nothing for the first model, then `model2:`, `model3:`."""
    numbered = re.match(r"model\d+:", name)
    return numbered.group() if numbered else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The fingerprints of named tensors at one moment; `samples` are [place in row-major order, value] of a few elements."""

    digests: Mapping[str, str]
    samples: Mapping[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorKind:
    """A parameter or buffer as it was before the model was wrapped."""

    role: str
    name: str
    structure: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """What became of one parameter's gradient by the time of the step.

    `local` is the projection of the rank's own gradient before it was reduced (None where autograd accumulated none),
    `reduced` the projection of what the optimizer gets, `count` how often one was accumulated. `standing` is `reduced` for
    a parameter that DDP reduces, else why it does not: added, replaced, unfrozen, ignored, outside, no model.
    """

    digest: str
    reduced: float
    local: float | None
    count: int
    standing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeen:
    """One audited step.

    (`forwards`, `since`, `beside`) align the ranks: wrapped forwards so far, steps since the last one, and for a step of no
    wrapped parameter, which is not counted, the number of such steps since.

    `weights` and `after` are keys of `Track.tables`: before the forward and after the step. `position` is the epoch and the
    batch that the data loader gave last, both counted by the loader. `wrapped` counts forwards of wrappers since the last step;
    `bypassed` are the user's lines that called a module whose wrapper was not called, by what the names of its tensors begin
    with. `lines` are the user's by what was called there (forward, backward, grad, or load: of weights since the last step),
    `origins` those that made a parameter what DDP does not reduce, by its name. `random` digests each random generator when the
    window began and when it ended. `finite` is whether all numbers given to the wrapper were. `parts`, and before the step
    `parts_before`, are [lowest rank that holds the same part, fingerprint] of parameters on a device mesh. `writes` are the
    user's lines that changed weights, gradients, settings or state outside forward, backward and step; sought in a replay only.
    `setting_lines` are the user's lines that gave the optimizer its settings (made it, loaded it, stepped its schedule), by
    setting, where nothing changed them since; `loaded` is where its state was loaded since its last step. `shadowed` is how many
    of the steps so far were its peers', which this rank only shadowed inside `Join`.
    """

    step: int
    forwards: int
    since: int
    weights: str
    after: str
    beside: int = 0
    position: tuple[int, int] | None = None
    shadowed: int = 0
    wrapped: int = 0
    synchronised: bool | None = None
    batch: int = 0
    input: str | None = None
    loss: float | None = None
    scale: float | None = None
    optimizer: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    setting_lines: Mapping[str, Line] = field(default_factory=dict)
    loaded: Line | None = None
    state: Mapping[str, str] | None = None
    buffers: Mapping[str, str] = field(default_factory=dict)
    gradients: Mapping[str, Gradient] = field(default_factory=dict)
    line: Line | None = None
    lines: Mapping[str, Line] = field(default_factory=dict)
    bypassed: Mapping[str, Line] = field(default_factory=dict)
    origins: Mapping[str, Line] = field(default_factory=dict)
    comm_hook: Line | None = None
    random: tuple[Mapping[str, int], ...] = ()
    finite: bool = True
    parts_before: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    writes: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int]:
        """What it has in common with the steps of other ranks that belong to it."""
        return self.forwards, self.since, self.beside


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowSeen:
    """A step that a GradScaler left out, because the gradients of this rank were not finite."""

    step: int
    forwards: int
    scale: float | None = None
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwaitedSeen:
    """An asynchronous collective `op`, called after `step` steps, whose handle was thrown away before anybody waited for it.

    Where `used_by` says forward or step, that read the result before it was there, and nobody had waited.
    """

    op: str
    step: int
    line: Line | None = None
    used_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSeen:
    """One pass over a data loader that was trained on; `indices` in the order drawn, None where the data set has none.

    `loader` and `number` count those that were trained on: what a rank only evaluates shifts neither.
    """

    loader: int
    number: int
    batches: int
    finished: bool
    length: int | None
    indices: tuple[int, ...] | None
    sampler: str = ""
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSeen:
    """Forwards in evaluation mode between two training steps, and the collectives that the user's code called after them."""

    step: int
    batches: int
    samples: int
    collectives: int
    input: str
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The weights (a key of `Track.tables`) of the models in training after `step` steps: at the end, or where others follow."""

    step: int
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One rank's training.

    `wrap_lines` are where its models were wrapped, in that order; `start` is the table of the weights when the last of those
    was wrapped that were wrapped before any step, `left` are those with which models ended. `steps_made` and `forwards_made` are
    None where the rank ended without last words.
    """

    method: str
    every: int
    kinds: tuple[TensorKind, ...] = ()
    wrap_lines: tuple[Line | None, ...] = ()
    models: int = 0
    start: str | None = None
    left: tuple[Left, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)
    steps: tuple[StepSeen, ...] = ()
    epochs: tuple[EpochSeen, ...] = ()
    evaluations: tuple[EvaluationSeen, ...] = ()
    overflows: tuple[OverflowSeen, ...] = ()
    unwaited: tuple[UnwaitedSeen, ...] = ()
    steps_made: int | None = None
    forwards_made: int | None = None
    interval: int = 1
    spent_seconds: float = 0.0
    seconds: float = 0.0


KINDS = (Track,)
