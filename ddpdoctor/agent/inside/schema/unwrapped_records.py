"""The records of the training trace about models beside the wrapped ones, such as an EMA or a teacher."""

from typing import NamedTuple

from .source_line import SourceLine


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
    """`Step.forwards` of the step before."""
    since: int
    """`Step.since` of the step before."""
    beside: int
    """`Step.beside` of the step before."""
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
