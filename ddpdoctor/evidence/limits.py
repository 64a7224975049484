"""What the operating system and the container allow a process of a job. Sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Limit: TypeAlias = "int | Literal['unlimited'] | None"
"""A soft limit; None where it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The soft resource limits of one process."""

    locked_memory_bytes: Limit = None
    open_files: Limit = None
    stack_bytes: Limit = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The processors that one process may use, and the threads that it would start on them.

    `affinity` holds the processor numbers it may run on. `quota_cores` is the container's share, None without one.
    `omp_threads` is OMP_NUM_THREADS, None where it is not set. `pressure_percent` is the share of the last ten seconds
    in which some process waited for a processor, None where the kernel does not say.
    """

    affinity: tuple[int, ...]
    quota_cores: float | None = None
    omp_threads: int | None = None
    pressure_percent: float | None = None

    @property
    def threads(self) -> int:
        """The threads that torch starts for computation: what OMP_NUM_THREADS says, else one a processor."""
        return self.omp_threads or len(self.affinity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of a host and of the container on it. `used_bytes` leaves out the file cache that can be dropped."""

    total_bytes: int
    used_bytes: int
    swap_used_bytes: int = 0
    limit_bytes: int | None = None
    limit_used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The memory file system /dev/shm, and what torch and NCCL left there. `stale_*` count files of dead processes."""

    size_bytes: int
    free_bytes: int
    stale_files: int = 0
    stale_bytes: int = 0
    examples: tuple[str, ...] = ()


KINDS = (Limits, Cpu, Memory, SharedMemory)
