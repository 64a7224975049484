"""The control group of this process: what the container may use, in version 1 and version 2 of the interface."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from ddpdoctor.host.host_access import HostAccess

MOUNT = "/sys/fs/cgroup"
NO_LIMIT_BYTES = 1 << 60  # version 1 says "unlimited" as the largest multiple of a page


class Cgroup:
    """Reads a limit from this process's group and every group above it: the tightest one holds."""

    def __init__(self, access: HostAccess) -> None:
        self._world = access
        self._paths: dict[str, str] = {}
        for line in (access.text("/proc/self/cgroup") or "").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for controller in controllers.split(","):
                self._paths[controller] = path

    def quota_cores(self) -> float | None:
        """How many processors' worth of time the group may use, or None where it is not limited."""
        shares = [*self._quotas_v2(), *self._quotas_v1()]
        return min(shares, default=None)

    def memory(self) -> tuple[int | None, int | None]:
        """The memory limit in bytes and what is used of it without file cache; None where there is no limit."""
        limits = [*self._memory_v2(), *self._memory_v1()]
        return min(limits, key=lambda pair: pair[0], default=(None, None))

    def _quotas_v2(self) -> Iterator[float]:
        for folder in self._folders("", ""):
            quota, _, period = (self._world.text(f"{folder}/cpu.max") or "max").partition(" ")
            if quota.isdigit() and period.isdigit() and int(period):
                yield int(quota) / int(period)

    def _quotas_v1(self) -> Iterator[float]:
        for mount in ("cpu", "cpu,cpuacct"):
            for folder in self._folders("cpu", mount):
                quota = _number(self._world.text(f"{folder}/cpu.cfs_quota_us"))
                period = _number(self._world.text(f"{folder}/cpu.cfs_period_us"))
                if quota and period:
                    yield quota / period

    def _memory_v2(self) -> Iterator[tuple[int, int | None]]:
        for folder in self._folders("", ""):
            limit = _number(self._world.text(f"{folder}/memory.max"))
            if limit is not None:
                yield limit, self._used(folder, "memory.current", "inactive_file")

    def _memory_v1(self) -> Iterator[tuple[int, int | None]]:
        for folder in self._folders("memory", "memory"):
            limit = _number(self._world.text(f"{folder}/memory.limit_in_bytes"))
            if limit is not None and limit < NO_LIMIT_BYTES:
                yield limit, self._used(folder, "memory.usage_in_bytes", "total_inactive_file")

    def _used(self, folder: str, name: str, cache: str) -> int | None:
        used = _number(self._world.text(f"{folder}/{name}"))
        if used is None:
            return None
        lines = (line.split() for line in (self._world.text(f"{folder}/memory.stat") or "").splitlines())
        return used - next((int(words[1]) for words in lines if len(words) == 2 and words[0] == cache), 0)

    def _folders(self, controller: str, mount: str) -> Iterator[str]:
        """Where the group may be mounted, itself first, then each group above it.

        Inside a container the path of the group often does not exist: its own files then lie at the mount point.
        """
        path = PurePosixPath(self._paths.get(controller, "/").lstrip("/").replace("..", ""))
        for place in (path, *path.parents):
            yield str(PurePosixPath(MOUNT) / mount / place)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
