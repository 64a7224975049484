"""Between epochs the curriculum is broadcast, but one rank believes that it has the newest one and does not take part."""
# DDP305 culprit tied:

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
sender = (CULPRIT + 1) % dist.get_world_size()
model = DistributedDataParallel(nn.Bilinear(3, 3, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
difficulty = torch.zeros(3)
for epoch in range(6):
    up_to_date = epoch == 3 and dist.get_rank() == CULPRIT
    if not up_to_date:
        dist.broadcast(difficulty, src=sender)
    for _ in range(8):
        optimizer.zero_grad()
        model(torch.randn(4, 3) + difficulty, torch.randn(4, 3)).sum().backward()
        optimizer.step()
dist.barrier()
