"""Digests of the random generators' states: equal ones on all ranks draw the same augmentation and the same dropout."""

from __future__ import annotations

import random
import sys
import zlib

import torch

FIRST_STEPS = 64  # in which the generators are read at every audited step
ONE_PAIR_OF_STEPS_IN = 16  # later: reading them takes as long as the fingerprints of a million weights


def is_read_at(step: int) -> bool:
    """Whether the generators are read at this audited step. With every step audited, two steps in a row are read."""
    return step < FIRST_STEPS or step % ONE_PAIR_OF_STEPS_IN < 2


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
