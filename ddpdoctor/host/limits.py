"""Resource limits, processors, memory and shared memory, through the container's eyes where there is one."""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.limits import Cpu, Limit, Limits, Memory, SharedMemory
from ddpdoctor.host.cgroup import Cgroup
from ddpdoctor.host.host_access import HostAccess

SHM = "/dev/shm"  # noqa: S108 - it is read, never written
NAMES_SHOWN = 3
_TORCH_FILE = re.compile(r"torch_(?P<pid>\d+)_")


def collect(access: HostAccess) -> Iterator[Limits | Cpu | Memory | SharedMemory | Missing]:
    """What this process may use of the machine."""
    cgroup = Cgroup(access)
    yield Limits(
        locked_memory_bytes=_soft_limit(resource.RLIMIT_MEMLOCK),
        open_files=_soft_limit(resource.RLIMIT_NOFILE),
        stack_bytes=_soft_limit(resource.RLIMIT_STACK),
    )
    yield Cpu(
        affinity=tuple(sorted(os.sched_getaffinity(0))),
        quota_cores=cgroup.quota_cores(),
        omp_threads=_positive(access.environ.get("OMP_NUM_THREADS")),
        pressure_percent=_pressure(access),
    )
    yield _memory(access, cgroup)
    yield _shared_memory(access)


def _soft_limit(number: int) -> Limit:
    soft, _ = resource.getrlimit(number)
    return "unlimited" if soft == resource.RLIM_INFINITY else soft


def _positive(text: str | None) -> int | None:
    """OpenMP takes a list with one number a nesting level; the first one counts here."""
    first = (text or "").partition(",")[0].strip()
    return int(first) or None if first.isdigit() else None


def _pressure(access: HostAccess) -> float | None:
    found = re.search(r"^some avg10=([\d.]+)", access.text("/proc/pressure/cpu") or "")
    return float(found[1]) if found else None


def _memory(access: HostAccess, cgroup: Cgroup) -> Memory | Missing:
    lines = (line.split() for line in (access.text("/proc/meminfo") or "").splitlines())
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
    if not {"MemTotal", "MemAvailable"} <= kilobytes.keys():
        return Missing(kind="Memory", reason="/proc/meminfo cannot be read or lacks MemTotal and MemAvailable")
    limit, used = cgroup.memory()
    return Memory(
        total_bytes=kilobytes["MemTotal"] << 10,
        used_bytes=(kilobytes["MemTotal"] - kilobytes["MemAvailable"]) << 10,
        swap_used_bytes=(kilobytes.get("SwapTotal", 0) - kilobytes.get("SwapFree", 0)) << 10,
        limit_bytes=limit,
        limit_used_bytes=used,
    )


def _shared_memory(access: HostAccess) -> SharedMemory | Missing:
    folder = access.path(SHM)
    try:
        space = os.statvfs(folder)
    except OSError as error:
        return Missing(kind="SharedMemory", reason=f"{SHM} cannot be read: {error.strerror}")
    stale = sorted(_stale_files(folder, access))
    return SharedMemory(
        size_bytes=space.f_blocks * space.f_frsize,
        free_bytes=space.f_bavail * space.f_frsize,
        stale_files=len(stale),
        stale_bytes=sum(size for _, size in stale),
        examples=tuple(name for name, _ in stale[:NAMES_SHOWN]),
    )


def _stale_files(folder: Path, access: HostAccess) -> Iterator[tuple[str, int]]:
    """Files that torch or NCCL made and that no living process holds, with their sizes.

    A torch file carries its maker's pid. An NCCL file does not: it is stale where every process can be looked into and
    none has it mapped.
    """
    nccl: dict[str, int] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                maker = _TORCH_FILE.match(entry.name)
                if maker is not None and not access.path(f"/proc/{maker['pid']}").exists():
                    yield entry.name, entry.stat().st_size
                elif entry.name.startswith("nccl-"):
                    nccl[entry.name] = entry.stat().st_size
    mapped = _mapped_nccl_files(access) if nccl else None
    if mapped is not None:
        yield from ((name, size) for name, size in nccl.items() if name not in mapped)


def _mapped_nccl_files(access: HostAccess) -> set[str] | None:
    """The NCCL files that some process has mapped, or None where a process could not be looked into."""
    found: set[str] = set()
    for process in access.path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "maps").read_text(errors="replace")
        except PermissionError:  # another user's; only opening it tells, its mode says that all may read
            return None
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        found.update(re.findall(rf"{SHM}/(nccl-\S+)", maps))
    return found
