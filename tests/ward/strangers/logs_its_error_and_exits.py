"""The program catches whatever its training raises, prints a line and exits with 1: on all ranks, as they lose the first one."""
# DDP401 culprit: raise ValueError

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def sample(number: int) -> torch.Tensor:
    if number == 11 and dist.get_rank() == CULPRIT:
        raise ValueError("sample 11 has no label")
    return torch.randn(3, 4)


def train() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(40):
        optimizer.zero_grad()
        model(sample(step)).sum().backward()
        optimizer.step()


try:
    train()
except (RuntimeError, ValueError):
    print("training failed")
    sys.exit(1)
