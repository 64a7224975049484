"""Blocks of a sequence go round in a ring; one rank waits for a file server before it takes part."""
# DDP307 culprit: time.sleep(3600)

import os
import time

import torch
import torch.distributed as dist

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(12):
    block, received = torch.randn(4, 8), torch.empty(4, 8)
    if rank == CULPRIT and step == 5:
        time.sleep(3600)
    works = [dist.isend(block, (rank + 1) % world), dist.irecv(received, (rank - 1) % world)]
    for work in works:
        work.wait()
    dist.all_reduce(received)
dist.destroy_process_group()
