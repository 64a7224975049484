"""Seeds for every generator that a job may use."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_worker(_worker: int) -> None:
    """Seed Python and NumPy in a loader process; torch is seeded already, the others would repeat their parent's numbers."""
    seed_everything(torch.initial_seed() % 2**32)
