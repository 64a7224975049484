"""How often a rank looks closely: at every Kth step, or as often as a small share of the job's time allows."""

from __future__ import annotations

import time

import torch

from .trace_writer import TraceWriter

FIRST_SECONDS = 0.05  # what following may cost before the job has run for long
SPARSEST = 1 << 14


class Budget:
    """Which steps are audited: every `every`th, or with 0 as many as cost `share` of the job's time.

    Inside `with budget:` autograd and autocast do not touch what is computed. Blocks are not nested.
    """

    def __init__(self, trace: TraceWriter, every: int, share: float) -> None:
        self.every = every
        self._trace = trace
        self._share = share
        self._guard = torch.no_grad()
        self._start = time.perf_counter()
        self._last: dict[str, int] = {}
        self.interval = every or 1

    @property
    def seconds(self) -> float:
        """Since the rank joined."""
        return time.perf_counter() - self._start

    def restart(self) -> None:
        """The clock starts again."""
        self._last.clear()

    def take(self, clock: int, what: str = "step") -> bool:
        """Whether the window that begins at `clock` is audited; intervals divide each other, so that ranks share audits.

        Each `what` has a clock of its own.
        """
        last = self._last.get(what)
        if last is not None and clock // self.interval <= last // self.interval:
            return False
        self._last[what] = clock
        return True

    def adapt(self, *, audited: bool) -> None:
        """Audit more rarely where that costs too much, and more often where it costs little."""
        if self.every:
            return
        allowed = FIRST_SECONDS + self._share * self.seconds
        if audited and self._trace.spent > allowed and self.interval < SPARSEST:
            self.interval *= 2
        elif self._trace.spent < allowed / 2 and self.interval > 1:
            self.interval //= 2

    def __enter__(self) -> None:
        self._guard.__enter__()
        self._cast = torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else None
        if self._cast is not None:
            self._cast.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._cast is not None:
            self._cast.__exit__(*error)
        self._guard.__exit__(*error)
