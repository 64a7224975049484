"""Where the time of a step goes: waiting for data, forward, backward, optimizer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Phases:
    """Adds up seconds by phase. On a GPU they are measured by events, which do not make the host wait."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what is done inside as part of the phase `name`."""
        if self._on_gpu and name != "data":
            before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before.record()
            yield
            after.record()
            self._events.append((name, before, after))
        else:
            start = time.perf_counter()
            yield
            self._seconds[name] += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Seconds by phase so far; waits for the GPU."""
        if self._events:
            torch.cuda.synchronize()
        for name, before, after in self._events:
            self._seconds[name] += before.elapsed_time(after) / 1000
        self._events.clear()
        return dict(self._seconds)
