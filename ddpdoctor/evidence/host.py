"""What can be known about one machine and the Python that runs on it. None stands for "could not be read"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine and its operating system. None stands for "could not be read"."""

    os: str | None = None
    """The distribution and its version."""
    kernel: str | None = None
    """The release of the kernel."""
    libc: str | None = None
    """The C library and its version."""
    architecture: str | None = None
    """Such as `x86_64`."""
    boot_id: str | None = None
    """The kernel's identity of this boot: equal on every container of one machine."""
    cpu_model: str | None = None
    """The name of the processor."""
    cores: int | None = None
    """All cores of the machine."""
    usable_cores: int | None = None
    """The cores that this process may run on."""
    memory_bytes: int | None = None
    """The memory of the machine."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The kernel's identities of the namespaces net, ipc, uts and pid."""
    nvidia_devices: tuple[str, ...] = ()
    """The device files of NVIDIA GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonInstall:
    """The interpreter that would run the job."""

    version: str
    """Of the interpreter, such as `3.12.4`."""
    executable: str
    """The path of the interpreter."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The versions of the distributions that matter to a distributed job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment variables that bear on a distributed job. Others are never read, secrets never kept."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Name to value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far this host's clock is ahead of rank 0's."""

    ahead_seconds: float
    """Below 0 where it is behind."""
    error_seconds: float
    """Half of the round trip: the largest error of `ahead_seconds`."""


KINDS = {
    Host: "operating system data",
    PythonInstall: "Python version and packages",
    Environment: "environment variables",
    Clock: "clock comparison",
}
