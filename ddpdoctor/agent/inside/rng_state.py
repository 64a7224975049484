"""Digests of the random generators' states: equal ones on all ranks draw the same augmentation and the same dropout."""

from __future__ import annotations

import random
import sys
import zlib

import torch


def random_state() -> dict[str, int]:
    """A digest of each generator that this process can have drawn from: Python's, NumPy's, torch's on the CPU and the GPU."""
    found = {
        "random": hash(random.getstate()[1]),  # a tuple of numbers: the same hash in every process
        "torch": zlib.crc32(torch.get_rng_state().numpy().tobytes()),
    }
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        state = numpy_random.get_state()
        if isinstance(state, tuple):  # else the user has put another bit generator there
            found["numpy.random"] = zlib.crc32(state[1].tobytes(), state[2])
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["torch.cuda"] = zlib.crc32(torch.cuda.get_rng_state().numpy().tobytes())
    return found
