"""How long ranks, and their loaders' workers, were ready to run without a processor: from the scheduler's counters."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ddpdoctor.evidence.step_times import ProcessorTime

PROC = Path("/proc")
PERIOD_SECONDS = 1.0  # between two readings; one of a rank with four workers takes 0.2 ms


@dataclass(slots=True)
class ProcessorTimes:
    """Reads the counters of ranks about once a second; `of_rank` returns the sums."""

    proc: Path = PROC
    """The proc file system that is read."""
    _read_at: float = 0.0
    _ranks: dict[int, _Rank] = field(default_factory=dict)

    def observe(self, pids: Mapping[int, int], now: float | None = None) -> None:
        """Read the counters of the processes `pids`, by rank, unless that was done less than a second ago."""
        now = time.monotonic() if now is None else now
        if now - self._read_at < PERIOD_SECONDS:
            return
        self._read_at = now
        for rank, pid in pids.items():
            known = self._ranks.get(rank)
            if known is None or known.pid != pid:
                known = self._ranks[rank] = _Rank(pid=pid)
            known.observe(self.proc, now)

    def of_rank(self, rank: int) -> ProcessorTime | None:
        """The sums of this rank's counters; None where they were not read twice."""
        known = self._ranks.get(rank)
        return known.time() if known is not None else None

    def by_rank(self) -> dict[int, ProcessorTime]:
        """The sums of each rank's counters, for ranks whose counters were read twice."""
        return {rank: known for rank in self._ranks if (known := self.of_rank(rank)) is not None}


def as_text(times: Mapping[int, ProcessorTime]) -> str:
    """Times by rank as one word of a command line."""
    return json.dumps({rank: asdict(time) for rank, time in times.items()})


def from_text(text: str) -> dict[int, ProcessorTime]:
    """The times that `as_text` wrote."""
    return {int(rank): ProcessorTime(**time) for rank, time in json.loads(text).items()}


@dataclass(slots=True)
class _Rank:
    """The counters of one rank's main thread since they were read first, and of its child processes."""

    pid: int
    begin: tuple[float, float, float] | None = None
    latest: tuple[float, float, float] | None = None
    children: dict[int, float] = field(default_factory=dict)
    children_ready: float = 0.0
    used_by: dict[int, float] = field(default_factory=dict)
    used: float = 0.0
    processors: int = 0

    def observe(self, proc: Path, now: float) -> None:
        """Read the counters once more. A worker that is new since the last reading has waited since its start."""
        counters = _counters(proc, self.pid)
        if counters is None:
            return
        listed = _children(proc, self.pid)
        ready = {child: read[1] for child in listed if (read := _counters(proc, child)) is not None}
        used_by = {pid: used for pid in (self.pid, *listed) if (used := _used(proc, pid)) is not None}
        if self.begin is not None:
            self.used += sum(max(0.0, used - self.used_by.get(pid, 0.0)) for pid, used in used_by.items())
        self.used_by = used_by
        self.processors = _processors(self.pid) or self.processors
        if self.begin is None:
            self.begin = (now, *counters)
        elif self.latest is not None and ready:
            longest = max(total - self.children.get(child, 0.0) for child, total in ready.items())
            self.children_ready += min(longest, now - self.latest[0])
        self.latest, self.children = (now, *counters), ready

    def time(self) -> ProcessorTime | None:
        if self.begin is None or self.latest is None or self.latest[0] <= self.begin[0]:
            return None
        seconds, ran, ready = (last - first for first, last in zip(self.begin, self.latest, strict=True))
        return ProcessorTime(
            seconds=seconds,
            ran=ran,
            ready=ready,
            workers_ready=self.children_ready,
            used=self.used,
            processors=self.processors,
        )


def _counters(proc: Path, pid: int) -> tuple[float, float] | None:
    """How many seconds the main thread of `pid` ran, and how many it was ready to run; None where that is not told.

    Source: Documentation/scheduler/sched-stats.rst of the Linux kernel, the first two numbers of schedstat.
    """
    with contextlib.suppress(OSError, ValueError):
        ran, ready, _ = (proc / str(pid) / "schedstat").read_text(encoding="ascii").split()
        return int(ran) / 1e9, int(ready) / 1e9
    return None


def _used(proc: Path, pid: int) -> float | None:
    """How many seconds of processor time all threads of `pid` have used; None where that is not told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None


def _processors(pid: int) -> int:
    """How many processors `pid` may use, 0 where it has ended."""
    with contextlib.suppress(OSError):
        return len(os.sched_getaffinity(pid))
    return 0


def _children(proc: Path, pid: int) -> list[int]:
    """The processes that the main thread of `pid` started; without them where the kernel does not list them."""
    with contextlib.suppress(OSError, ValueError):
        listed = (proc / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
        return [int(child) for child in listed.split()]
    return []
