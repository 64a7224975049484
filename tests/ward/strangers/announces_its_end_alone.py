"""At the very end of the program one rank alone adds something up over all ranks; the others have ended."""
# DDP305 culprit: dist.all_reduce(

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(40):
    optimizer.zero_grad()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
if rank == int(os.environ["CULPRIT"]):
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"ranks: {total.item()}")
