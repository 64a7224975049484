"""Two groups of all ranks used in the same order, pairs of ranks on their own, leaders that talk without the rest."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
generators, discriminators = dist.new_group(), dist.new_group()
pairs = [dist.new_group([first, first + 1]) for first in range(0, world_size - 1, 2)]
leaders_ranks = list(range(0, world_size, 2))
leaders = dist.new_group(leaders_ranks)
generator = DistributedDataParallel(nn.Linear(8, 8), process_group=generators)
discriminator = DistributedDataParallel(nn.Linear(8, 1), process_group=discriminators)
first = torch.optim.SGD(generator.parameters(), lr=0.01)
second = torch.optim.SGD(discriminator.parameters(), lr=0.01)
for step in range(30):
    first.zero_grad()
    second.zero_grad()
    discriminator(generator(torch.randn(4, 8))).mean().backward()
    first.step()
    second.step()
    if rank // 2 < len(pairs):
        for _ in range(1 + rank // 2):  # one pair talks more often than the other
            dist.all_reduce(torch.ones(5 + rank // 2), group=pairs[rank // 2])
    if rank in leaders_ranks:
        dist.all_reduce(torch.ones(3), group=leaders)
        if step % 10 == 0:
            dist.broadcast(torch.ones(2), src=0, group=leaders)
dist.destroy_process_group()
