"""Run by `verify-sync` on two ranks: FSDP2 models whose buffers one rank changes, healthily or not."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SICK_STEP = 6


class Net(nn.Module):
    """Counts for its own log, in all forwards and in some."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)
        self.register_buffer("scale", torch.ones(8))
        self.register_buffer("outliers", torch.zeros(8, dtype=torch.long))
        self.register_buffer("batches_with_outliers", torch.zeros((), dtype=torch.long))

    def forward(self, x: Any) -> Any:
        far = x.abs() > 8
        self.outliers.add_(far.sum(0))
        if far.any():
            self.batches_with_outliers.add_(1)
        return self.last(self.first(x * self.scale).relu())


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Net()
mesh = init_device_mesh("cpu", (2,))
fully_shard(model.first, mesh=mesh)
fully_shard(model, mesh=mesh)
parameters = [*model.parameters()]
groups = [parameters[::2], parameters[1::2]] if "two_optimizers" in sys.argv else [parameters]
optimizers = [torch.optim.AdamW(of_one, lr=0.01) for of_one in groups]
torch.manual_seed(100 + rank)
for step in range(10):
    x = torch.randn(4, 8)
    if step == SICK_STEP and rank == 1:
        x[0, 0] = 9.0
        if "sick" in sys.argv:
            model.scale.mul_(3)
    for optimizer in optimizers:
        optimizer.zero_grad()
    model(x).square().mean().backward()
    for optimizer in optimizers:
        optimizer.step()
dist.destroy_process_group()
