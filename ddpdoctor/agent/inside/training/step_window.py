"""What is known of a step while it is going on: from the first forward after the step before it to its own end."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..schema.step_records import Averaging, Backward, Evaluating, Gradients, Stepping


@dataclass
class StepWindow:
    """The parts of a `Step` of the trace, as far as they are known; filled in where the window is audited."""

    backward: Backward = field(default_factory=Backward)
    """The forwards and the backward so far."""
    closure: bool = False
    """Whether the optimizer was given a closure, which calls forward and backward inside the step."""
    stepping: Stepping | None = None
    """The optimizer, once it is about to step."""
    gradients: Gradients | None = None
    """The gradients, once they are complete."""
    buffers: dict[str, str] = field(default_factory=dict)
    """By name, the fingerprints of buffers before the first forward."""
    buffer_writes: dict[str, int] | None = None
    """By name, how often each of these buffers of FSDP2 models was written since it was seen first; None for others."""
    models_run: set[str] = field(default_factory=set)
    """The prefixes of the models whose buffers are in `buffers`."""
    weights: str = ""
    """The key of the table of the weights before the first forward."""
    after: str = ""
    """The key of the table of the weights after the step."""
    evaluating: dict[str, Evaluating] = field(default_factory=dict)
    """By the prefix of a model, what was in evaluation mode in its last forward."""
    averaging: Averaging | None = None
    """The averagings of the weights before the first forward."""
    random: dict[str, int] = field(default_factory=dict)
    """A digest of each random generator before the first forward."""
