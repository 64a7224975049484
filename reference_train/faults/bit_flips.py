"""Flips bits as bad memory does: no operation of PyTorch writes them, so no version counter moves."""

from __future__ import annotations

import torch
from torch import Tensor


def flip(tensor: Tensor, element: int, bit: int) -> None:
    """Flip `bit` (0 is the lowest) of `element`, counted in memory, of a dense tensor."""
    where = element * tensor.element_size() + bit // 8
    data = tensor.data  # has a counter of its own
    data.as_strided((data.numel(),), (1,)).view(torch.uint8)[where] ^= 1 << bit % 8


def flip_after_reduction(gradient_of: Tensor, element: int, bit: int) -> None:
    """Flip a bit of the gradient of `gradient_of` when DDP has reduced it, and before backward returns; once."""

    def reduced() -> None:
        gradient = gradient_of.grad
        assert gradient is not None
        flip(gradient, element, bit)

    def accumulated(_: Tensor) -> None:
        engine = torch.autograd.Variable._execution_engine  # noqa: SLF001 - DDP has no hook after its reduction
        engine.queue_callback(lambda: engine.queue_callback(reduced))  # DDP's own callback comes between the two
        handle.remove()

    handle = gradient_of.register_post_accumulate_grad_hook(accumulated)
