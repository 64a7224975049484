"""Waiting in tests: for what must come to hold, with a deadline that no busy machine misses."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0


def within(holds: Callable[[], object], *, seconds: float = SECONDS) -> bool:
    """Whether it comes to hold within a minute, or within so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
