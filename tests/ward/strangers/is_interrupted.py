"""Somebody sends SIGINT to the wrong process: Python turns it into a KeyboardInterrupt on one rank in the middle of a step."""
# DDP403 culprit:

import os
import signal
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.Adam(model.parameters())
if dist.get_rank() == int(os.environ["CULPRIT"]):
    threading.Timer(2.0, os.kill, (os.getpid(), signal.SIGINT)).start()
for _ in range(100_000):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,))).backward()
    optimizer.step()
dist.destroy_process_group()
