"""What a rank holds when its training may be over: code that comes after may put other weights in place, on one rank.

That is at the end of a pass over a loader, before a state dict is loaded, where the rank leaves the process group, and at the end
of the process.
"""

from __future__ import annotations

from torch.optim import Optimizer

from .last_weights import LastWeightsLog
from .replica import Replica
from .weight_averaging import WeightAveraging

FIRST_PASSES = 8
"""After so many passes every rank looks, whatever it costs: looks of different moments cannot be compared, and most short jobs
make no more. After that each looks as its own budget allows."""


class EndOfTraining:
    """Looks at weights and optimizer state at these moments; the trace has those after the last step."""

    def __init__(self, replica: Replica, averaging: WeightAveraging) -> None:
        self._replica, self._averaging = replica, averaging
        self._weights = LastWeightsLog(replica.trace, replica.digests, replica.models, replica.counts)
        self._passes = 0  # over loaders that were trained on, as far as they have reached their end

    def pass_over(self) -> None:
        """The loop over a loader that was trained on has ended: where no step follows, the weights now are the last ones."""
        self._passes += 1
        if not self._replica.models.count or self._averaging.count:
            return
        if self._passes <= FIRST_PASSES:
            with self._replica.budget:
                self._look(f"pass {self._passes}")
        else:
            self._replica.budget.spare("end of a pass", lambda: self._look(f"pass {self._passes}"))

    def leaves(self) -> None:
        """The rank leaves the process group: its optimizer is still there, which may be gone when the process ends."""
        if self._replica.models.count and not self._averaging.count:
            with self._replica.budget:
                self._look("leave")

    def before_load(self) -> None:
        """A state dict is about to be loaded: its best weights for a test on one rank, say."""
        with self._replica.budget:
            self._weights.look("load")
            self._replica.steps_by_optimizer.look("load")

    def _look(self, moment: str) -> None:
        self._weights.look(moment)
        self._replica.steps_by_optimizer.look(moment)
        self._replica.state.look(self._replica.optimizers(), self._replica.counts, moment)

    def made(self, optimizer: Optimizer) -> None:
        """`optimizer` has stepped."""
        self._weights.made(optimizer)
        self._replica.state.made(optimizer)

    def stepped(self, after: str) -> None:
        """The step was audited: after it the weights are those of the table `after`."""
        self._weights.stepped(after)

    def forget(self) -> None:
        """A model was wrapped, or weights were averaged: there are other weights."""
        self._weights.forget()

    def of_models(self) -> None:
        """The models in training make way for others: write down the weights with which they end."""
        self._weights.write(self._averaging.since_all)

    def of_process(self) -> None:
        """The process ends: write down weights and state."""
        self.of_models()
        if not self._averaging.count:
            with self._replica.budget:
                self._replica.steps_by_optimizer.look("end")
                self._replica.state.write_last(self._replica.optimizers(), self._replica.counts)
