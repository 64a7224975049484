"""Forwards in evaluation mode between two training steps, and whether their result was brought together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..overhead_budget import Budget
from ..schema.data_records import Evaluation
from ..tensors.tensor_digests import Digests, tensors_in
from ..trace_writer import TraceWriter, user_line

SEEN_BATCHES = 8  # whose content tells whether ranks evaluate the same samples


class EvaluationLog:
    """Follows the evaluation that is going on, if any. `collectives` counts those that the user's code has called so far."""

    def __init__(self, trace: TraceWriter, budget: Budget, digests: Digests, collectives: Callable[[], int]) -> None:
        self._trace, self._budget, self._digests, self._collectives = trace, budget, digests, collectives
        self.current: Evaluation | None = None
        """The evaluation that is going on; its collectives are those before it, until it is over."""

    def forward(self, inputs: Any) -> None:  # noqa: ANN401
        """The model is about to evaluate a batch."""
        current = self.current
        if current is None:
            current = Evaluation(
                step=0, batches=0, samples=0, input="", collectives=self._collectives(), line=user_line()
            )
        first = next(tensors_in(inputs), None)
        samples = first.shape[0] if first is not None and first.dim() else 0
        seen = ""
        if current.batches < SEEN_BATCHES:
            with self._budget:
                seen = self._digests.of(tensors_in(inputs))
        self.current = current._replace(
            batches=current.batches + 1, samples=current.samples + samples, input=current.input + seen
        )

    def over(self, step: int) -> None:
        """Training goes on, or ends: write down the evaluation before `step`, if there was one."""
        current, self.current = self.current, None
        if current is not None:
            self._trace.write(current._replace(step=step, collectives=self._collectives() - current.collectives))
