"""Run by `verify-sync`: ranks with different numbers of batches under Join, which is healthy.

The first optimizer has no state. The second one takes part in the steps of its peers (ZeRO-1).
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)))
plain = torch.optim.SGD(model.parameters(), lr=0.1)
sharded = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
for optimizer, joined in [(plain, [model])] * 3 + [(sharded, [model, sharded])] * 2:
    with Join(joined):
        for _ in range(4 + 2 * dist.get_rank()):
            optimizer.zero_grad()
            model(torch.randn(4, 12)).square().mean().backward()
            optimizer.step()
dist.destroy_process_group()
