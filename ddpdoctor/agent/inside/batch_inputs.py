"""What a wrapped model is given: how many samples, and whether all of their numbers are finite."""

from __future__ import annotations

import math
from typing import Any

import torch

from .tensor_digests import tensors_in


def samples_in(inputs: Any) -> int:  # noqa: ANN401
    """The length of the first tensor among the inputs; 0 without one."""
    tensor = next(tensors_in(inputs), None)
    return tensor.shape[0] if tensor is not None and tensor.dim() else 0


def is_finite(inputs: Any) -> bool:  # noqa: ANN401
    """Whether every floating-point number among the inputs is finite."""
    floats = (tensor for tensor in tensors_in(inputs) if tensor.is_floating_point() and tensor.layout is torch.strided)
    # one pass where the sum is finite, as then all are; a sum of finite numbers may overflow
    return all(math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all()) for tensor in floats)
