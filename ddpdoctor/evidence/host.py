"""What can be known about one machine and the Python that runs on it. None stands for "could not be read"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine and its operating system. `namespaces` are the kernel's identities of net, ipc, uts and pid."""

    os: str | None = None
    kernel: str | None = None
    libc: str | None = None
    architecture: str | None = None
    boot_id: str | None = None
    cpu_model: str | None = None
    cores: int | None = None
    usable_cores: int | None = None
    memory_bytes: int | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    nvidia_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInstall:
    """The interpreter that would run the job, and the versions of the distributions that matter to it."""

    version: str
    executable: str
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment variables that bear on a distributed job; others are never read, secrets never kept."""

    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far this host's clock is ahead of rank 0's, give or take `error_seconds`."""

    ahead_seconds: float
    error_seconds: float


KINDS = (Host, PythonInstall, Environment, Clock)
