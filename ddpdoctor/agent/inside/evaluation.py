"""Forwards in evaluation mode between two training steps, and whether their result was brought together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .budget import Budget
from .journal import Journal, user_line
from .prints import Prints, tensors_in

SEEN_BATCHES = 8  # whose content tells whether ranks evaluate the same samples


class Evaluation:
    """The evaluation that is going on, if any. `collectives` counts those that the user's code has called so far."""

    def __init__(self, journal: Journal, budget: Budget, prints: Prints, collectives: Callable[[], int]) -> None:
        self._journal, self._budget, self._prints, self._collectives = journal, budget, prints, collectives
        self._found: dict[str, Any] | None = None

    def forward(self, inputs: Any) -> None:  # noqa: ANN401
        """The model is about to evaluate a batch."""
        if self._found is None:
            self._found = {"batches": 0, "samples": 0, "input": "", "since": self._collectives(), "line": user_line()}
        found = self._found
        found["batches"] += 1
        first = next(tensors_in(inputs), None)
        if first is not None and first.dim():
            found["samples"] += first.shape[0]
        if found["batches"] <= SEEN_BATCHES:
            with self._budget:
                found["input"] += self._prints.of(tensors_in(inputs))

    def over(self, step: int) -> None:
        """Training goes on, or ends: write down the evaluation before `step`, if there was one."""
        found, self._found = self._found, None
        if found is not None:
            collectives = self._collectives() - found.pop("since")
            self._journal.write("evaluation", step=step, collectives=collectives, **found)
