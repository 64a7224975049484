"""Weights that the job averages itself now and then, and not gradients at every step: PostLocalSGD, LocalSGD, model averagers.

Between two averagings every rank's weights are its own by design. The user's code, or a library's, averages with collectives
of its own, which are recognised by what they send: the weights, after a step and before the next backward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from ..schema.source_line import SourceLine
from ..schema.step_records import Averaging
from ..tensors.tensor_digests import tensors_in
from ..trace_writer import user_line

REDUCTIONS = frozenset({"all_reduce", "all_reduce_coalesced"})
LEAST_SHARE = 0.5  # of all elements of the weights: a metric has fewer, and an averager may leave frozen layers out


class WeightAveraging:
    """Counts averagings over all ranks or in process groups, and the steps since the last one.

    `weights` returns the weights in training.
    """

    def __init__(self, weights: Callable[[], Iterable[Tensor]]) -> None:
        self._weights = weights
        self._sent = 0  # elements since the last step or backward
        self._sent_in_group: dict[tuple[int, ...], int] = {}
        self._members: tuple[int, ...] | None = None
        self._gradients_are_due = False
        self.count = 0
        """Averagings so far."""
        self.local = 0
        """Steps since the last averaging; 0 before the first."""
        self._line: SourceLine | None = None

    @property
    def state(self) -> Averaging | None:
        """What the trace says of it; None before the first averaging."""
        if not self.count:
            return None
        return Averaging(self.count, self.local, self._line, None if self._members is None else [*self._members])

    @property
    def just_now(self) -> bool:
        """Whether no optimizer has stepped since the last averaging."""
        return self.count > 0 and not self.local

    @property
    def since_all(self) -> int:
        """Steps since the weights were averaged over all ranks; 1 at least where the last averaging was among some."""
        return self.local if self._members is None else max(self.local, 1)

    def backward(self) -> None:
        """Gradients are there: what is sent from here on until the step may be them."""
        self._gradients_are_due = True
        self._sent = 0
        if self._sent_in_group:
            self._sent_in_group.clear()

    def stepped(self, *, counted: bool) -> None:
        """An optimizer has stepped (`counted`: weights in training), or a GradScaler has left the step out."""
        self._gradients_are_due = False
        self._sent = 0
        if self._sent_in_group:
            self._sent_in_group.clear()
        self.local += counted and self.count > 0

    def reduced(self, name: str, sent: Any, members: tuple[int, ...] | None) -> bool:  # noqa: ANN401 - of a collective
        """A collective was called on all ranks (None) or on these; returns whether the weights are averaged with it.

        Among some ranks they are where it sends, with those before it in the group, as many elements as all weights have.
        """
        if self._gradients_are_due or name not in REDUCTIONS:
            return False
        sizes = [tensor.numel() for tensor in tensors_in(sent) if tensor.is_floating_point()]
        if not sizes:
            return False
        weights = [weight.numel() for weight in self._weights()]
        if members is not None:
            in_group = self._sent_in_group[members] = self._sent_in_group.get(members, 0) + sum(sizes)
            return in_group == sum(weights) and self._averaged(members)
        before, self._sent = self._sent, self._sent + sum(sizes)
        least = LEAST_SHARE * sum(weights)
        if not weights or before >= least or self._sent < least:
            return False
        return self._averaged(None)

    def _averaged(self, members: tuple[int, ...] | None) -> bool:
        self.count += 1
        self.local = 0
        self._line, self._members = user_line(), members
        return True
