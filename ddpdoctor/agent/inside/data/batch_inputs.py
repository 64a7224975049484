"""What a wrapped model is given: how many samples, and whether all of their numbers are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def samples_in(tensors: Sequence[Tensor]) -> int:
    """The length of the first of the inputs' tensors; 0 without one."""
    return tensors[0].shape[0] if tensors and tensors[0].dim() else 0


def are_finite(tensors: Sequence[Tensor]) -> bool:
    """Whether every floating-point number among the inputs' tensors is finite."""
    floats = [one for one in tensors if one.is_floating_point() and one.layout is torch.strided]
    # one pass where the sum is finite, as then all are; a sum of finite numbers may overflow
    return all(math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all()) for tensor in floats)
