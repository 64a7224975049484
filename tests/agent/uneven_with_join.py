"""Run by `verify-sync`: ranks with different numbers of batches under Join, and an optimizer without state, which is healthy."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    with Join([model]):
        for _ in range(4 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            model(torch.randn(4, 12)).square().mean().backward()
            optimizer.step()
dist.destroy_process_group()
