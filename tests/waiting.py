"""Waiting in tests: for what must come to hold, with a deadline that no busy machine misses."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0


def within(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold within a minute."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False
