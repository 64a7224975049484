"""A monitored barrier behind every epoch: rank 0 hears each of the others there, and gloo counts that on rank 0 alone."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(6, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    for _step in range(8):
        optimizer.zero_grad()
        model(torch.randn(2, 6)).square().mean().backward()
        optimizer.step()
    dist.monitored_barrier(timeout=timedelta(seconds=60))
    loss = torch.ones(1)
    dist.all_reduce(loss)
dist.destroy_process_group()
