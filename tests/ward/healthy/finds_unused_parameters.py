"""Each rank sends its batch through another expert, and find_unused_parameters is on, as it must be."""

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(8, 8)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor, expert: int) -> torch.Tensor:
        return self.experts[expert](self.trunk(x))


dist.init_process_group("gloo")
choice = random.Random(dist.get_rank())
model = DistributedDataParallel(Experts(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    optimizer.zero_grad()
    model(torch.randn(4, 8), choice.randrange(4)).square().mean().backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
