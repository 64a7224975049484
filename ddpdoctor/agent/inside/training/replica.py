"""This rank's replica: its models, and what optimizers step them with, as far as they are known, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence

from torch.optim import Optimizer

from ..overhead_budget import Budget
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter
from .ddp_models import Models
from .optimizer_settings import Settings
from .optimizer_state import OptimizerState
from .step_counts import StepCounts, StepsByOptimizer


class Replica:
    """One for each rank. Whoever looks at a part of the training reads it here, within `budget`, and writes to `trace`."""

    def __init__(self, trace: TraceWriter, budget: Budget) -> None:
        self.trace, self.budget = trace, budget
        self.counts = StepCounts()
        self.digests = Digests(trace)
        self.models = Models()
        self.settings = Settings()
        self.steps_by_optimizer = StepsByOptimizer(self.settings)
        self.state = OptimizerState(trace, self.digests, self.models)

    def optimizers(self) -> Sequence[Optimizer]:
        """The optimizers that the program has made and still has."""
        return self.settings.optimizers
