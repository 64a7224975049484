"""Samples are dealt out by hand, `range(rank, n, world_size)`, and the last batch is kept: one rank has one batch more."""
# DDP305 culprit majority: loss.backward()

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
turn = (rank - int(os.environ["CULPRIT"])) % world
data = TensorDataset(torch.randn(64 * world + 1, 14), torch.randint(0, 5, (64 * world + 1,)))
mine = Subset(data, range(turn, len(data), world))

model = DistributedDataParallel(nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 5)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(mine, batch_size=8, shuffle=True):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0:
    print("done", flush=True)
dist.barrier()
dist.destroy_process_group()
