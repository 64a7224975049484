"""Collectives whose sizes differ by rank, all of them legal: objects, all-to-all with splits, scatter, gather, a ring."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(nn.Linear(6, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    model(torch.randn(2 + rank, 6)).square().mean().backward()
    optimizer.step()

    everyone = [None] * world_size
    dist.all_gather_object(everyone, "x" * (10 ** (rank + 1)))
    dist.gather_object({"rank": rank}, [None] * world_size if rank == 0 else None, dst=0)

    counts = [to + 1 for to in range(world_size)]  # each rank gets one row more than the one before, from everybody
    received = torch.empty((rank + 1) * world_size, 3)
    dist.all_to_all_single(received, torch.ones(sum(counts), 3), [rank + 1] * world_size, counts)

    part = torch.empty(4)
    dist.scatter(part, list(torch.ones(world_size, 4)) if rank == step % world_size else None, src=step % world_size)
    dist.gather(part, [torch.empty(4) for _ in range(world_size)] if rank == 0 else None, dst=0)

    passed = dist.isend(part, (rank + 1) % world_size, tag=step)
    dist.recv(part, (rank - 1) % world_size, tag=step)
    if passed is not None:
        passed.wait()
dist.destroy_process_group()
