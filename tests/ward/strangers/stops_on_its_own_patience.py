"""Early stopping between epochs, decided by each rank on its own validation value."""
# DDP306 culprit: dist.barrier()

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
best, bad_epochs = float("inf"), 0
for epoch in range(30):
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    value = 1.0 if dist.get_rank() == CULPRIT and epoch > 8 else 1.0 / (epoch + 1)
    if value < best:
        best, bad_epochs = value, 0
    else:
        bad_epochs += 1
        if bad_epochs > 3:
            break
dist.barrier()
dist.destroy_process_group()
