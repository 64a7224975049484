"""What is known of a step while it is going on: from the first forward after the step before it to its own end."""

from __future__ import annotations

from ..schema.step_records import Averaging, Backward, Evaluating, Gradients, Stepping


class StepWindow:
    """The parts of a `Step` of the trace, as far as they are known; filled in where the window is audited."""

    def __init__(self, backward: Backward | None = None) -> None:
        self.backward = Backward() if backward is None else backward
        """The forwards and the backward so far."""
        self.closure = False
        """Whether the optimizer was given a closure, which calls forward and backward inside the step."""
        self.stepping: Stepping | None = None
        """The optimizer, once it is about to step."""
        self.gradients: Gradients | None = None
        """The gradients, once they are complete."""
        self.buffers: dict[str, str] = {}
        """By name, the fingerprints of buffers before the first forward."""
        self.buffer_writes: dict[str, int] | None = None
        """By name, how often each of these buffers of FSDP2 models was written since it was seen first; None for others."""
        self.models_run: set[str] = set()
        """The prefixes of the models whose buffers are in `buffers`."""
        self.weights = ""
        """The key of the table of the weights before the first forward."""
        self.after = ""
        """The key of the table of the weights after the step."""
        self.evaluating: dict[str, Evaluating] = {}
        """By the prefix of a model, what was in evaluation mode in its last forward."""
        self.averaging: Averaging | None = None
        """The averagings of the weights before the first forward."""
        self.random: dict[str, int] = {}
        """A digest of each random generator before the first forward."""
