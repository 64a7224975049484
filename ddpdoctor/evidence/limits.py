"""What the operating system and the container allow a process of a job. Sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ddpdoctor.evidence.bounds import need

Limit: TypeAlias = "int | Literal['unlimited'] | None"
"""A soft limit; None where it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The soft resource limits of one process."""

    locked_memory_bytes: Limit = None
    """`ulimit -l`."""
    open_files: Limit = None
    """`ulimit -n`."""
    stack_bytes: Limit = None
    """`ulimit -s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The processors that one process may use, and the threads that it would start on them."""

    affinity: tuple[int, ...]
    """The numbers of the processors that it may run on."""
    quota_cores: float | None = None
    """The container's share in cores, None without one."""
    omp_threads: int | None = None
    """OMP_NUM_THREADS, None where it is not set."""
    pressure_percent: float | None = None
    """The share of the last ten seconds in which some process waited for a processor; None where the kernel does not
    report it."""

    @property
    def threads(self) -> int:
        """The threads that torch starts for computation: what OMP_NUM_THREADS says, else one a processor."""
        return self.omp_threads or len(self.affinity)

    def __post_init__(self) -> None:
        need(self.quota_cores is None or 0 < self.quota_cores < float("inf"), f"the quota is {self.quota_cores} cores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of a host and of the container on it."""

    total_bytes: int
    """The memory of the host."""
    used_bytes: int
    """The memory in use, without the file cache that can be dropped."""
    swap_used_bytes: int = 0
    """The swap space in use."""
    limit_bytes: int | None = None
    """The container's limit, None without one."""
    limit_used_bytes: int | None = None
    """What the container uses of it, without the file cache that can be dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """The memory file system /dev/shm, and what torch and NCCL left there."""

    size_bytes: int
    """The most that it can hold."""
    free_bytes: int
    """How much of it is free."""
    stale_files: int = 0
    """How many files belong to processes that are dead."""
    stale_bytes: int = 0
    """The size of these files."""
    examples: tuple[str, ...] = ()
    """The names of some of them."""


KINDS = {
    Limits: "resource limits",
    Cpu: "CPU affinity and load",
    Memory: "memory usage",
    SharedMemory: "size of /dev/shm",
}
