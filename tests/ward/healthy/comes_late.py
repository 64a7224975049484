"""Rank 0 prepares the data for twelve seconds before it joins; the others wait for it in the rendezvous."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def prepare(seconds: float) -> int:
    words, begin = 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        words += len(sorted(str(number) for number in range(1000)))
    return words


if os.environ["RANK"] == "0":
    print(prepare(12.0), "words", flush=True)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(10, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    optimizer.zero_grad()
    model(torch.randn(4, 10)).square().sum().backward()
    optimizer.step()
dist.destroy_process_group()
