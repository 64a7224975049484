"""A sharded optimizer's state is consolidated for a checkpoint on one rank only; the collective hides in the library."""
# DDP305 culprit: optimizer.consolidate_state_dict(

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

SAVING_RANK = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)))
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=1e-3)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    if step == 20 and dist.get_rank() == SAVING_RANK:
        optimizer.consolidate_state_dict(to=SAVING_RANK)
        state = optimizer.state_dict()
dist.destroy_process_group()
