"""Whether the kernel killed a rank for memory: the counters of its control group, and the kernel's log."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
NO_LIMIT_BYTES = 1 << 60  # version 1 says "unlimited" as the largest multiple of a page
MOST_KERNEL_LINES = 100_000
EVERY_SECONDS = 10.0  # launchers put a process into its group before it is a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEnd:
    """What is known of a process that SIGKILL ended."""

    oom_kills: int | None
    """Kills for memory in its control group since it was first seen; None where the counter cannot be read."""
    limit_bytes: int | None
    """The memory limit of its control group; None where there is none or it cannot be read."""
    peak_bytes: int | None
    """The most memory that its control group has used; None where the kernel does not count it."""
    kernel_said: str | None
    """The kernel's line about killing it; None where there is none or the log cannot be read."""


class MemoryWatch:
    """Remembers the control group of each rank while it lives: afterwards /proc no longer tells."""

    def __init__(self) -> None:
        self._folders: dict[int, Path | None] = {}
        self._before: dict[Path, int | None] = {}
        self._next = 0.0

    def observe(self, pids: Iterable[int]) -> None:
        """Note the groups that these processes are in: of a new process at once, of all every ten seconds."""
        now = time.monotonic()
        every = now >= self._next
        if every:
            self._next = now + EVERY_SECONDS
        for pid in pids:
            if every or pid not in self._folders:
                self._look(pid)

    def _look(self, pid: int) -> None:
        folder = self._folders[pid] = _folder(pid) or self._folders.get(pid)
        if folder is not None and folder not in self._before:
            self._before[folder] = _kills(folder)

    def end_of(self, pid: int) -> MemoryEnd:
        """What became of `pid`, as far as its group and the kernel tell."""
        folder = self._folders.get(pid)
        now = _kills(folder) if folder is not None else None
        before = self._before.get(folder) if folder is not None else None
        return MemoryEnd(
            oom_kills=None if now is None or before is None else now - before,
            limit_bytes=_number(folder, "memory.max", "memory.limit_in_bytes"),
            peak_bytes=_number(folder, "memory.peak", "memory.max_usage_in_bytes"),
            kernel_said=_kernel_said(pid),
        )


def _folder(pid: int) -> Path | None:
    """The folder of the group that accounts for the memory of `pid`, in either version of the interface."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        roots = [MOUNT / "memory"] if "memory" in controllers.split(",") else []
        roots += [MOUNT, MOUNT / "unified"] if not controllers else []
        for root in roots:
            folder = root / path.lstrip("/")
            if (folder / "memory.events").exists() or (folder / "memory.oom_control").exists():
                return folder
    return None


def _kills(folder: Path) -> int | None:
    for name in ("memory.events", "memory.oom_control"):
        with contextlib.suppress(OSError):
            found = re.search(r"^oom_kill (\d+)$", (folder / name).read_text(encoding="ascii"), re.MULTILINE)
            if found:
                return int(found[1])
    return None


def _number(folder: Path | None, *names: str) -> int | None:
    for name in names if folder is not None else ():
        with contextlib.suppress(OSError, ValueError):
            value = int((folder / name).read_text(encoding="ascii")) if folder is not None else 0
            return value if value < NO_LIMIT_BYTES else None
    return None


def _kernel_said(pid: int) -> str | None:
    """The kernel's own line about killing `pid`, where this user may read its log."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    kernel_line = None
    with contextlib.suppress(OSError):  # EAGAIN: no further line
        for _ in range(MOST_KERNEL_LINES):
            line = os.read(descriptor, 8192).decode(errors="replace").partition(";")[2].partition("\n")[0]
            if re.search(rf"Killed process {pid}\b", line):
                kernel_line = line.strip()
    os.close(descriptor)
    return kernel_line
