"""Waiting in tests: for what must come to hold, with a deadline that no busy machine misses."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0
PROGRAM_SECONDS = 300.0
"""For a program that takes up to 30 s on a free machine: it ends one that hangs, and says nothing about the speed of others."""


def within(holds: Callable[[], object], *, seconds: float = SECONDS) -> bool:
    """Whether it comes to hold within a minute, or within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
