"""Rank 0 sends the whole model as an object; one rank runs an older checkout that lacks the class."""
# DDP401 culprit: dist.broadcast_object_list(box

import os
import sys
import types

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, old = int(os.environ["RANK"]), int(os.environ["CULPRIT"])
zoo = types.ModuleType("zoo")
sys.modules["zoo"] = zoo


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 10))

    def forward(self, x):
        return self.body(x)


Net.__module__ = "zoo"
sender = 0 if old else 1
if rank != old:
    zoo.Net = Net


def main():
    dist.init_process_group("gloo")
    box = [Net() if rank == sender else None]
    dist.broadcast_object_list(box, src=sender)
    model = DistributedDataParallel(box[0])
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        opt.zero_grad()
        model(torch.randn(4, 64)).sum().backward()
        opt.step()
    dist.destroy_process_group()


main()
