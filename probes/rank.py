"""What every probe does first and last: join the process group, and report through rank 0."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import Store, TCPStore  # type: ignore[attr-defined] # public all the same

from ddpdoctor.launch import attendance
from ddpdoctor.transport.store import next_run, own_part

RESULTS = "DDPDOCTOR_RESULTS"
PURPOSE = "ranks"  # of keys in the store
LOOK_SECONDS = 0.2


def join(backend: str | None = None, *, timeout_seconds: float = 60.0) -> torch.device:
    """Join the default process group of the launcher's job; returns the device that this rank computes on.

    `backend` is `gloo`, `nccl`, or None for NCCL where GPUs are usable and gloo elsewhere. RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT are set, by the launcher or by ddpdoctor.launch.rendezvous.
    """
    if backend is None:
        backend = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    join_group(backend, timedelta(seconds=timeout_seconds))
    return device


def join_group(backend: str, timeout: timedelta) -> None:
    """Join the default process group; where somebody asks who has come, rank 0 tells it meanwhile."""
    if attendance.VARIABLE in os.environ:
        rank, world_size, store = _met(timeout)
        dist.init_process_group(backend, timeout=timeout, rank=rank, world_size=world_size, store=store)
        attendance.note(None, complete=True)
    else:
        dist.init_process_group(backend, timeout=timeout)


def _met(timeout: timedelta) -> tuple[int, int, Store]:
    """This rank, the number of ranks, and the store that they share; rank 0 says meanwhile who has come.

    As `init_process_group` makes the store of these variables, but that rank 0 need not wait in its constructor, and that a
    second command under the same launcher finds no keys of the first.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    whole: Store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        None if hosted else world_size,
        is_master=rank == 0 and not hosted,
        timeout=timeout,
        wait_for_workers=False,
    )
    store = own_part(whole, PURPOSE)
    store.set(f"here/{rank}", "")
    until = time.monotonic() + timeout.total_seconds()
    absent = set(range(world_size)) if rank == 0 else set()
    while absent and time.monotonic() < until:
        absent = {other for other in absent if not store.check([f"here/{other}"])}
        attendance.note(set(range(world_size)) - absent, complete=False)
        if absent:
            time.sleep(LOOK_SECONDS)
    if rank == 0:
        next_run(whole, PURPOSE)
    return rank, world_size, store


def report(result: dict[str, Any]) -> None:
    """Append one result for the process that asked; does nothing on ranks other than 0."""
    path = os.environ.get(RESULTS)
    if path and (not dist.is_initialized() or dist.get_rank() == 0):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
