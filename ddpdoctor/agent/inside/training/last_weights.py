"""The weights with which models end: after their last step, whatever is loaded into them later."""

from __future__ import annotations

import torch

from ..schema.final_records import LastWeights
from ..tensors.tensor_digests import Digests
from ..trace_writer import TraceWriter
from .ddp_models import Models
from .step_counts import StepCounts


class LastWeightsLog:
    """Knows the weights after the latest step as soon as they were looked at."""

    def __init__(self, trace: TraceWriter, digests: Digests, models: Models, counts: StepCounts) -> None:
        self._trace, self._digests, self._models, self._counts = trace, digests, models, counts
        self._known: LastWeights | None = None
        self._watched: torch.Tensor | None = None  # one of the parameters, as it is asked after each step
        self._first = self._latest = 0  # its version after its first step, and after the latest

    def forget(self) -> None:
        """A model was wrapped, or weights were averaged: there are other weights."""
        self._known = self._watched = None

    def made(self, optimizer: torch.optim.Optimizer) -> None:
        """A step was made."""
        if self._watched is None:
            first = optimizer.param_groups[0]["params"][:1]
            if not first or first[0].is_inference():
                return
            self._watched, self._first = first[0], first[0]._version  # noqa: SLF001 - PyTorch gives it no other name
        self._latest = self._watched._version  # noqa: SLF001

    def stepped(self, after: str) -> None:
        """After the latest step the weights are those of the table `after`."""
        self._known = self._at(after, "step")

    def look(self, moment: str) -> LastWeights:
        """The weights after the latest step, looked at now if nobody has yet."""
        if self._known is None or self._known.step != self._counts.steps:
            key = self._digests.write("last", self._models.parameters(), always=True)
            self._known = self._at(key, moment)
        return self._known

    def _at(self, key: str, moment: str) -> LastWeights:
        if self._watched is None:
            return LastWeights(self._counts.steps, key, moment=moment)
        later = self._watched._version - self._latest  # noqa: SLF001
        return LastWeights(self._counts.steps, key, writes=self._latest - self._first, later=later, moment=moment)

    def write(self, local: int) -> None:
        """Write down the weights with which the models end that are in training, `local` steps after they were averaged."""
        if self._models.count:
            self._trace.write(self.look("end")._replace(local=local))
