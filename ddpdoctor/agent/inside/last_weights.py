"""The weights with which models end: after their last step, whatever is loaded into them later."""

from __future__ import annotations

from .ddp_models import Models
from .schema.training_trace import LastWeights
from .step_counts import StepCounts
from .tensor_digests import Digests
from .trace_writer import TraceWriter


class LastWeightsLog:
    """Knows the weights after the latest step as soon as they were looked at."""

    def __init__(self, trace: TraceWriter, digests: Digests, models: Models, counts: StepCounts) -> None:
        self._trace, self._digests, self._models, self._counts = trace, digests, models, counts
        self._known: LastWeights | None = None

    def forget(self) -> None:
        """A model was wrapped, or weights were averaged: there are other weights."""
        self._known = None

    def stepped(self, after: str) -> None:
        """After the latest step the weights are those of the table `after`."""
        self._known = LastWeights(self._counts.steps, after)

    def look(self) -> LastWeights:
        """The weights after the latest step, looked at now if nobody has yet."""
        if self._known is None or self._known.step != self._counts.steps:
            key = self._digests.write("last", self._models.parameters(), always=True)
            self._known = LastWeights(self._counts.steps, key)
        return self._known

    def write(self, local: int) -> None:
        """Write down the weights with which the models end that are in training, `local` steps after they were averaged."""
        if self._models.count:
            self._trace.write(self.look()._replace(local=local))
