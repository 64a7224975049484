"""A native library gives up on one rank in the last step and aborts the process."""
# DDP403 culprit:

import ctypes
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.EmbeddingBag(50, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.randint(0, 50, (4, 3))).sum().backward()
    optimizer.step()
    if step == 39 and dist.get_rank() == int(os.environ["CULPRIT"]):
        ctypes.CDLL(None).abort()
dist.barrier()
