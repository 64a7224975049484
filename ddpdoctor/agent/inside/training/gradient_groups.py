"""Among which ranks a job that wraps no model averages its gradients: the members of the group in which it reduces them.

Ranks of other groups hold other parts of the model, as under tensor parallelism. What is reduced inside the backward may be
activations, and does not count. An all-to-all inside the backward returns gradients of activations to the ranks that computed
them: parameters that no wrapper holds are then parts of the model (embedding tables, experts), and no replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from ..tensors.tensor_digests import tensors_in
from .weight_averaging import LEAST_SHARE, REDUCTIONS

EXCHANGES = frozenset({"all_to_all", "all_to_all_single"})


class GradientGroups:
    """What was reduced since the last backward, by group. `weights` returns the weights in training."""

    def __init__(self, weights: Callable[[], Iterable[Tensor]]) -> None:
        self._weights = weights
        self.are_due = False
        """Whether what is reduced now may be gradients."""
        self.exchanged = False
        """Whether the last backward sent gradients of activations to the ranks that had computed these."""
        self._inside = False  # a backward
        self._sent: dict[tuple[int, ...], int] = {}

    def backward(self) -> None:
        """A backward begins."""
        self._inside, self.exchanged = True, False
        self._forget()

    def backward_over(self) -> None:
        """Gradients are there: what is reduced from here on until the step may be them."""
        self._inside, self.are_due = False, True

    def stepped(self) -> None:
        """An optimizer has stepped."""
        if self.are_due:
            self._forget()

    def _forget(self) -> None:
        self.are_due = False
        self._sent.clear()

    def reduced(self, name: str, sent: Any, members: tuple[int, ...]) -> None:  # noqa: ANN401 - a collective's first argument
        """The collective `name` was called with `sent` by the ranks `members`."""
        if self.are_due and name in REDUCTIONS:
            floats = sum(tensor.numel() for tensor in tensors_in(sent) if tensor.is_floating_point())
            self._sent[members] = self._sent.get(members, 0) + floats
        elif self._inside and name in EXCHANGES:
            self.exchanged |= any(tensor.is_floating_point() for tensor in tensors_in(sent))

    @property
    def members(self) -> list[int] | None:
        """The ranks among which most of the gradients were reduced; None where it was in no group, or in several."""
        if not self._sent:
            return None
        least = LEAST_SHARE * sum(weight.numel() for weight in self._weights())
        found = [members for members, sent in self._sent.items() if sent >= least]
        return [*found[0]] or None if len(found) == 1 else None
