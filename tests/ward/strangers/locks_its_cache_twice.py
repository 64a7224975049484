"""A cache whose fill method takes the lock that its get method already holds."""
# DDP307 culprit: with self.lock:  # the second time

import os
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


class Cache:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[int, torch.Tensor] = {}

    def get(self, key: int) -> torch.Tensor:
        with self.lock:
            if key not in self.entries:
                self.fill(key)
            return self.entries[key]

    def fill(self, key: int) -> None:
        if dist.get_rank() == CULPRIT and key == 40:
            with self.lock:  # the second time
                self.entries[key] = torch.zeros(8)
        self.entries[key] = torch.randn(8)


dist.init_process_group("gloo")
cache = Cache()
model = DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(100):
    optimizer.zero_grad()
    model(cache.get(i)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
