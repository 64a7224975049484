"""An asynchronous reader is awaited at each step, and on one rank its event is never set."""
# DDP307 culprit: asyncio.run(read(step))

import asyncio
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


async def read(step: int) -> torch.Tensor:
    ready = asyncio.Event()
    if not (dist.get_rank() == CULPRIT and step == 15):
        ready.set()
    await ready.wait()
    return torch.randn(4, 5)


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(5, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(30):
    batch = asyncio.run(read(step))
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
dist.destroy_process_group()
