"""The jobs and files in the pictures."""

from __future__ import annotations

TRAIN = """\
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def log(loss):
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(200):
    loss = model(torch.randn(16, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
    if step == 40 and dist.get_rank() == 0:
        print("mean loss", log(loss.detach()))
"""
EMA = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    if step == 11 and dist.get_rank() == 0:
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(0.9)
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
HANGS = """\
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def fetch(step):
    time.sleep(1000 if step == 60 and dist.get_rank() == 2 else 0.03)


dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(2000):
    fetch(step)
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes 2
#SBATCH --gpus-per-node 8
srun torchrun --standalone --nproc-per-node 8 train.py
"""
LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 61, in <module>
[rank0]:     loss.backward()
[rank0]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error \
indicates that your module has parameters that were not used in producing loss.
"""
FILES = {
    "train.py": TRAIN,
    "hangs.py": HANGS,
    "ema.py": EMA,
    "job.sbatch": SCRIPT,
    "slurm-4711.out": LOG,
}
