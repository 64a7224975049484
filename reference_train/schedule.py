"""The learning rate: it grows with the batch, warms up, then falls like a cosine."""

from __future__ import annotations

import math

RATE_AT_64 = {"digitnet": 0.1, "resnet9": 0.05, "resnet18": 0.05}  # peaks for SGD with Nesterov momentum 0.9


def peak_rate(model: str, samples_a_step: int) -> float:
    """The peak rate of a model, proportional to the batch (Goyal et al. 2017, "Accurate, Large Minibatch SGD")."""
    return RATE_AT_64[model] * samples_a_step / 64


def share_of_peak(step: int, steps: int, warmup_steps: int) -> float:
    """The rate at `step` of `steps` as a share of the peak: a line up during warm-up, then half a cosine down."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / max(1, steps - warmup_steps)))
