"""What every probe does first and last: join the process group, and report through rank 0."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

RESULTS = "DDPDOCTOR_RESULTS"


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
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_seconds))
    return device


def report(result: dict[str, Any]) -> None:
    """Append one result for the process that asked; does nothing on ranks other than 0."""
    path = os.environ.get(RESULTS)
    if path and (not dist.is_initialized() or dist.get_rank() == 0):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
