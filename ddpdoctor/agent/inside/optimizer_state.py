"""Fingerprints of what an optimizer keeps for its parameters: momentum, variance, its own count of steps."""

from __future__ import annotations

from torch.optim import Optimizer

from .ddp_models import Models
from .dtensor import is_meshed
from .named_tensors import optimizer_state
from .tensor_digests import Digests


class OptimizerState:
    """Names are the user's, as far as a wrapped model has them."""

    def __init__(self, digests: Digests, models: Models) -> None:
        self._digests, self._models = digests, models

    def of(self, optimizer: Optimizer) -> dict[str, str] | None:
        """By name the fingerprint of each tensor; None where each rank holds another part of the state."""
        if "ZeroRedundancy" in type(optimizer).__name__:
            return None
        model = next(iter(self._models), None)
        pairs = optimizer_state(model.module if model else None, optimizer)
        return self._digests.by_name({name: tensor for name, tensor in pairs if not is_meshed(tensor)})
