"""A loss that is not finite is passed over on the rank that has it; its next forward broadcasts the buffers of a batch norm."""
# DDP316 culprit tied: loss.backward()

import math
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(9, 9), nn.BatchNorm1d(9), nn.Linear(9, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(40):
        x = torch.randn(6, 9)
        if step == 15 and dist.get_rank() == CULPRIT:
            x[0, 0] = math.nan
        loss = model(x).square().mean()
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


main()
