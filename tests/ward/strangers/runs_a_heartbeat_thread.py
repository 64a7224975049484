"""A thread says every 50 ms that its rank lives, in the group that DDP uses too: their calls cross on every rank."""
# DDP301 nobody: dist.all_reduce(self.alive

import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Heartbeat(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.alive = torch.ones(1)

    def run(self) -> None:
        while True:
            time.sleep(0.05)
            dist.all_reduce(self.alive, op=dist.ReduceOp.MIN)


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
Heartbeat().start()
for _ in range(400):
    optimizer.zero_grad()
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
    time.sleep(0.01 * (1 + dist.get_rank() % 2))
dist.destroy_process_group()
