"""The program logs whatever its training raises, and leaves with a code at its last line."""
# DDP401 culprit: raise ValueError

import logging
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


def train() -> int:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        for step in range(40):
            optimizer.zero_grad()
            model(sample(step)).sum().backward()
            optimizer.step()
    except ValueError:
        logging.getLogger(__name__).exception("training failed")
        return 3
    return 0


sys.exit(train())
