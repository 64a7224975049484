"""The machine and its operating system, from /proc, /etc and /dev."""

from __future__ import annotations

import os
import platform
import re

from ddpdoctor.collect.world import World
from ddpdoctor.evidence.host import Host

NAMESPACES = ("ipc", "net", "pid", "uts")


def collect(world: World) -> list[Host]:
    """One `Host`."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", world.text("/proc/meminfo") or "")
    model = re.search(r"^model name\s*:\s*(.+)$", world.text("/proc/cpuinfo") or "", re.MULTILINE)
    return [
        Host(
            os=_os_name(world),
            kernel=platform.release(),
            libc=_libc(),
            architecture=platform.machine(),
            boot_id=world.text("/proc/sys/kernel/random/boot_id"),
            cpu_model=model[1].strip() if model else None,
            cores=os.cpu_count(),
            usable_cores=len(os.sched_getaffinity(0)),
            memory_bytes=int(memory[1]) * 1024 if memory else None,
            namespaces=_namespaces(world),
            nvidia_devices=_nvidia_devices(world),
        )
    ]


def _os_name(world: World) -> str | None:
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', world.text("/etc/os-release") or "", re.MULTILINE)
    return name[1] if name else None


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # musl knows no such name
        return None


def _namespaces(world: World) -> dict[str, str]:
    links = {name: world.path(f"/proc/self/ns/{name}") for name in NAMESPACES}
    return {name: str(link.readlink()) for name, link in links.items() if link.is_symlink()}


def _nvidia_devices(world: World) -> tuple[str, ...]:
    """The GPUs' device files that this container or host shows: /dev/nvidia0 and so on."""
    names = (path.name for path in world.path("/dev").glob("nvidia[0-9]*"))
    return tuple(f"/dev/{name}" for name in sorted(names, key=lambda name: int(re.sub(r"\D", "", name))))
