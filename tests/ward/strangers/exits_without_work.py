"""Between epochs one rank finds that no files are left for it and exits, politely, with code 0."""
# DDP306 culprit:

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(5, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
files = [f"{number:03d}.bin" for number in range(2 if dist.get_rank() == CULPRIT else 6)]
for _ in range(6):
    if not files:
        print("nothing left to do", flush=True)
        sys.exit(0)
    files.pop()
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).sum().backward()
        optimizer.step()
dist.barrier()
