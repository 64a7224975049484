"""One rank of a running job at one moment, as `ddpdoctor top` shows it. Nothing of it is kept in a case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatus:
    """One rank at one moment; None is what cannot be told."""

    rank: int
    """The rank in the job."""
    host: str
    """The name of its host."""
    pid: int
    """Its process id there."""
    state: str
    """In one word or two: `computing`, `all_reduce #812`, `data loader`, `stopped`."""
    line: str = ""
    """The user's own line, as `train.py:61`."""
    steps: int | None = None
    """Optimizer steps so far."""
    steps_per_second: float | None = None
    """Over the last samples."""
    late_seconds: float | None = None
    """By how much it reaches collectives after the first rank of its host (median of the last ones)."""
    cpu_share: float | None = None
    """CPU seconds per second."""
    memory_bytes: int | None = None
    """Resident memory."""
    gpu: str = ""
    """Use, memory and temperature of its GPU: `87% 14G 61C`."""
    idle_seconds: float | None = None
    """Since it last completed a call, a forward or a step."""
    waits_for_peers: bool = False
    """Whether it waits for other ranks."""
    stack: tuple[str, ...] = ()
    """The innermost frames of its main thread, as `train.py:61 in fetch`; empty where they were not read."""
