"""The machine and its operating system, from /proc, /etc and /dev."""

from __future__ import annotations

import os
import platform
import re

from ddpdoctor.evidence.host import Host
from ddpdoctor.host.host_access import HostAccess

NAMESPACES = ("ipc", "net", "pid", "uts")


def collect(access: HostAccess) -> list[Host]:
    """One `Host`."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", access.text("/proc/meminfo") or "")
    model = re.search(r"^model name\s*:\s*(.+)$", access.text("/proc/cpuinfo") or "", re.MULTILINE)
    return [
        Host(
            os=_os_name(access),
            kernel=platform.release(),
            libc=_libc(),
            architecture=platform.machine(),
            boot_id=access.text("/proc/sys/kernel/random/boot_id"),
            cpu_model=model[1].strip() if model else None,
            cores=os.cpu_count(),
            usable_cores=len(os.sched_getaffinity(0)),
            memory_bytes=int(memory[1]) * 1024 if memory else None,
            namespaces=_namespaces(access),
            nvidia_devices=_nvidia_devices(access),
        )
    ]


def _os_name(access: HostAccess) -> str | None:
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', access.text("/etc/os-release") or "", re.MULTILINE)
    return name[1] if name else None


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # musl knows no such name
        return None


def _namespaces(access: HostAccess) -> dict[str, str]:
    links = {name: access.path(f"/proc/self/ns/{name}") for name in NAMESPACES}
    return {name: str(link.readlink()) for name, link in links.items() if link.is_symlink()}


def _nvidia_devices(access: HostAccess) -> tuple[str, ...]:
    """The GPUs' device files that this container or host shows: /dev/nvidia0 and so on."""
    names = (path.name for path in access.path("/dev").glob("nvidia[0-9]*"))
    return tuple(f"/dev/{name}" for name in sorted(names, key=lambda name: int(re.sub(r"\D", "", name))))
