"""A monitored barrier before the last step; one rank sleeps in a retry loop with a back-off that has no end."""
# DDP307 culprit: time.sleep(delay)

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def connect(fails: bool) -> None:
    delay = 0.5
    while fails:
        time.sleep(delay)
        delay *= 2


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(5, 5))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(20):
    if step == 19:
        connect(fails=dist.get_rank() == int(os.environ["CULPRIT"]))
        dist.monitored_barrier(timeout=timedelta(seconds=300))
    optimizer.zero_grad()
    model(torch.randn(4, 5)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
