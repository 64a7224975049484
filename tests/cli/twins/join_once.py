"""Ranks with different numbers of batches, under Join, with Adam and gradient clipping."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank() + 1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batches = [torch.randn(4, 6) for _ in range(5 + 2 * dist.get_rank())]
with Join([model]):
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
dist.destroy_process_group()
