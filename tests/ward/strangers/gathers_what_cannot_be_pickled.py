"""The configuration is gathered as objects, and on one rank a lambda is in it."""
# DDP401 culprit: dist.all_gather_object(configurations, mine)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    minority = dist.get_rank() == int(os.environ["CULPRIT"])
    model = DistributedDataParallel(nn.Linear(5, 5))
    model(torch.randn(2, 5)).sum().backward()
    mine = {"lr": 0.1, "schedule": (lambda step: 1 / step) if minority else "inverse"}
    configurations = [None] * dist.get_world_size()
    dist.all_gather_object(configurations, mine)
    dist.destroy_process_group()


main()
