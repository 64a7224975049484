"""Blocks of a sequence go round in a ring, sent and received at once; one rank passes over an empty block and sends nothing."""
# DDP313 culprit:

import os

import torch
import torch.distributed as dist

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
weights = torch.nn.Linear(8, 8)


def passed_on(block: torch.Tensor, *, empty: bool) -> torch.Tensor:
    received = torch.empty_like(block)
    halves = [dist.P2POp(dist.irecv, received, (rank - 1) % world)]
    if not empty:
        halves.append(dist.P2POp(dist.isend, block, (rank + 1) % world))
    for work in dist.batch_isend_irecv(halves):
        work.wait()
    return received


for step in range(20):
    block = torch.randn(4, 8)
    for hop in range(2):
        block = passed_on(block, empty=rank == CULPRIT and (step, hop) == (7, 1))
    weights(block).square().mean().backward()
    for parameter in weights.parameters():
        dist.all_reduce(parameter.grad)
    weights.zero_grad()
dist.destroy_process_group()
