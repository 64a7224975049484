"""The records of the training trace about the end of a training."""

from typing import NamedTuple

from .source_line import SourceLine


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


class LastSettings(NamedTuple):
    """What one optimizer was to step with next when its training was over, or may have been."""

    steps: int
    """The number of its steps."""
    moment: str
    """When it was looked at, as in `LastWeights`."""
    settings: dict[str, str]
    """The options of its parameter groups, as text."""
    setting_lines: list[tuple[SourceLine, list[str]]]
    """The lines that gave it these options, each with their names."""


class OptimizerSteps(NamedTuple):
    """What one optimizer did that steps models in training."""

    name: str
    """Its class."""
    steps: int
    """The number of its steps."""
    first: SourceLine | None
    """The user's line of its first step."""
    began: int
    """How many steps the rank had made before that."""
    settings: dict[str, str]
    """The options of its parameter groups then, as text."""
    setting_lines: list[tuple[SourceLine, list[str]]]
    """The lines that gave it these options, each with their names."""
    last: LastSettings | None = None
    """Its options when it was looked at last after its latest step; None where it was gone by then."""


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
    by_optimizer: list[OptimizerSteps] | None = None
    """The steps of each optimizer, in the order of their first ones."""
