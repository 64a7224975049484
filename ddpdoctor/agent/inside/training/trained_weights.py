"""The weights that a rank trains: those of its wrapped models, or what its optimizers step where it has wrapped none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..tensors.dtensor import is_meshed
from ..tensors.tensor_digests import Digests
from .ddp_models import Models
from .integrity import versions
from .optimizer_settings import parameters_of

MOST_READ_BYTES = 1 << 24  # of weights, after each line of the user's where writes are looked for: some milliseconds


class TrainedWeights:
    """The weights of a rank at the moment at which somebody asks."""

    def __init__(self, models: Models, digests: Digests, optimizers: Callable[[], Sequence[Optimizer]]) -> None:
        self._models, self._digests, self._optimizers = models, digests, optimizers

    def tensors(self) -> Iterator[Tensor]:
        """Each of them."""
        if self._models.count:
            return iter(self._models.parameters().values())
        return (parameter for one in self._optimizers() for parameter in parameters_of(one))

    def now(self) -> object:
        """What changes with each write of the wrapped models' weights; those of large models are only counted, not read."""
        return self._state(self._of_wrapped_models(), "watched")

    def gradients(self) -> object:
        """The same of their gradients."""
        found = (weight.grad for weight in self._of_wrapped_models())
        own = [one for one in found if one is not None and one.layout is torch.strided]
        return self._state(own, "watched gradients")

    def _state(self, tensors: Sequence[Tensor], name: str) -> object:
        if not _are_read(tensors):
            return versions(tensors)
        with torch.no_grad():  # this may be called from anywhere
            return self._digests.of(tensors, name)

    @property
    def are_read(self) -> bool:
        """Whether `now` reads them: a write that PyTorch does not count changes it, too."""
        return _are_read(self._of_wrapped_models())

    def _of_wrapped_models(self) -> list[Tensor]:
        return [parameter for parameter in self._models.parameters().values() if not is_meshed(parameter)]


def _are_read(weights: Sequence[Tensor]) -> bool:
    return bool(weights) and sum(tensor.nbytes for tensor in weights) <= MOST_READ_BYTES
