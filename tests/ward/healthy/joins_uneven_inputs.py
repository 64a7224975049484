"""The ranks have different numbers of batches, and say so with Join; two optimizers, one of them in the Join too."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(3):
    with Join([model]):
        for _ in range(20 + 7 * dist.get_rank()):
            optimizer.zero_grad()
            model(torch.randn(4, 12)).square().mean().backward()
            optimizer.step()
    seen = torch.tensor([20.0 + 7 * dist.get_rank()])
    dist.all_reduce(seen)
    if dist.get_rank() == 0:
        print("epoch", epoch, "steps of all ranks", seen.item(), flush=True)
dist.destroy_process_group()
