"""DDP414: one rank's wrapper script starts it with a clean environment."""

import os
import sys

import torch.distributed as dist
from patient import admit

if os.environ.get("RANK") == str(sys.argv[sys.argv.index("--culprit") + 1] if "--culprit" in sys.argv else 1):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        del os.environ[name]
    dist.init_process_group("gloo")  # sick

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
