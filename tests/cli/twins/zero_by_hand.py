"""ZeRO-1 written by hand: each rank's optimizer steps its own parameters, which are then sent to all ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
)
owner_of = {name: place % dist.get_world_size() for place, (name, _) in enumerate(model.named_parameters())}
optimizer = torch.optim.AdamW([p for name, p in model.named_parameters() if owner_of[name] == dist.get_rank()], lr=1e-2)
torch.manual_seed(1 + dist.get_rank())
for _step in range(6):
    model.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    for name, parameter in model.named_parameters():
        dist.broadcast(parameter.data, owner_of[name])
dist.destroy_process_group()
