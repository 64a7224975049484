"""How often a rank looks closely: at every Kth step, or as often as a small share of the job's time allows."""

from __future__ import annotations

import time

import torch

FIRST_SECONDS = 0.05  # what audits may cost before the job has run for long
SHARE = 0.015  # of the job's time that audits may cost after that
SPARSEST = 1 << 14


class Budget:
    """Which steps are audited, and what that has cost. `with budget:` counts the time inside as cost.

    Autograd and autocast must not touch what is computed inside. Blocks are not nested.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._start = time.perf_counter()
        self._due = 0
        self.interval = every or 1
        self.spent = 0.0

    @property
    def seconds(self) -> float:
        """Since the rank joined."""
        return time.perf_counter() - self._start

    def take(self, clock: int) -> bool:
        """Whether the window that begins at `clock` is audited; intervals divide each other, so that ranks share audits."""
        if clock < self._due:
            return False
        self._due = (clock // self.interval + 1) * self.interval
        return True

    def adapt(self) -> None:
        """Audit more rarely where audits cost too much, and more often where they cost little."""
        if self._every:
            return
        allowed = FIRST_SECONDS + SHARE * self.seconds
        if self.spent > allowed and self.interval < SPARSEST:
            self.interval *= 2
        elif self.spent < allowed / 2 and self.interval > 1:
            self.interval //= 2

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        self._guard = torch.no_grad()
        self._cast = torch.autocast("cpu", enabled=False)
        self._guard.__enter__()
        self._cast.__enter__()

    def __exit__(self, *error: object) -> None:
        self._cast.__exit__(*error)
        self._guard.__exit__(*error)
        self.spent += time.perf_counter() - self._began
