"""A helper ends the program of one rank, without a failure and without a word, while the others train on."""
# DDP306 culprit: sys.exit(0)

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def stop_if_done(step: int) -> None:
    if step == 11 and dist.get_rank() == int(os.environ["CULPRIT"]):
        sys.exit(0)


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    stop_if_done(step)
    optimizer.zero_grad()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
