"""A group for the ranks that validate is made only by the ranks that are in it; the next group, of all, then has two names."""
# DDP315 culprit tied:

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
validators = [r for r in range(world) if r != CULPRIT]

model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.ELU(), nn.Linear(24, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
group = None
for _epoch in range(4):
    for _ in range(10):
        loss = nn.functional.cross_entropy(model(torch.randn(8, 12)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank in validators:
        if group is None:
            group = dist.new_group(validators)
        accuracy = torch.rand(1)
        dist.all_reduce(accuracy, group=group)
everybody = dist.new_group()
dist.barrier(group=everybody)
dist.destroy_process_group()
