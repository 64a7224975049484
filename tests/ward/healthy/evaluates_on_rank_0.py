"""Rank 0 evaluates for ten seconds on the plain module; the others wait for it in a barrier."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SECONDS = 10.0


@torch.no_grad()
def evaluate(model: nn.Module) -> float:
    total, begin = 0.0, time.monotonic()
    while time.monotonic() - begin < SECONDS:
        total += model(torch.randn(64, 32)).sum().item()
    return total


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
    if step == 20:
        if dist.get_rank() == 0:
            model.eval()
            print(f"{evaluate(model.module):.3f}", flush=True)
            model.train()
        dist.barrier()
dist.destroy_process_group()
