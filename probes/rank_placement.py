"""Where a rank runs: its host, its cores, its device, the memory it may use, and how its clock differs from rank 0's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist

from ddpdoctor.host.cgroup import Cgroup
from ddpdoctor.host.host_access import HostAccess

CLOCK_ROUNDS = 8


def about_this_rank(device: torch.device) -> dict[str, Any]:
    """Where this rank runs; `boot` tells machines apart, and with them clocks."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return {
        "host": os.uname().nodename,
        "boot": boot.read_text().strip() if boot.exists() else os.uname().nodename,
        "cores": sorted(os.sched_getaffinity(0)),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
    }


def memory_for_each(ranks: list[dict[str, Any]], device: torch.device) -> int:
    """The free bytes of this rank's GPU, or its share of what is free on the host."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    here: int = sum(rank["boot"] == ranks[dist.get_rank()]["boot"] for rank in ranks)
    available = int(psutil.virtual_memory().available)
    limit, used = Cgroup(HostAccess()).memory()
    room = available if limit is None else max(0, limit - (used or 0))
    return min(available, room) // here


def clock_offset(ranks: list[dict[str, Any]], control: dist.ProcessGroup) -> float:
    """What to add to this rank's clock to have rank 0's: half a round trip's error, and none on rank 0's own machine."""
    me, mine = dist.get_rank(), torch.zeros(1, dtype=torch.float64)
    offset = 0.0
    for peer in range(1, len(ranks)):
        if ranks[peer]["boot"] == ranks[0]["boot"] or me not in (0, peer):
            continue
        best = float("inf")
        for _ in range(CLOCK_ROUNDS):
            if me == 0:
                dist.recv(mine, peer, group=control)
                mine[0] = time.perf_counter()
                dist.send(mine, peer, group=control)
            else:
                asked = time.perf_counter()
                dist.send(mine, 0, group=control)
                dist.recv(mine, 0, group=control)
                answered = time.perf_counter()
                if answered - asked < best:
                    best, offset = answered - asked, float(mine[0]) - (asked + answered) / 2
    return offset
