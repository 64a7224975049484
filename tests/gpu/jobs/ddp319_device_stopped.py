"""DDP319: a kernel of one rank fails, and the rank goes on enqueuing: nobody tells it that its collectives have ended."""

import os
import time

os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # the watchdog must not end the rank

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "reference_train" / "faults"))

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    for step in range(patient.steps):
        if patient.sick_at(step):
            torch._assert_async(torch.zeros((), device=patient.device))  # sick
        try:
            dist.all_reduce(torch.ones(1 << 16, device=patient.device))
        except RuntimeError as error:
            print(f"rank {patient.rank}: {error}", flush=True)
            time.sleep(3600)
        time.sleep(0.02)
    torch.cuda.synchronize()
