"""FullyShardedDataParallel, the first one: each rank steps its part of one flat parameter."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = FullyShardedDataParallel(
    nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), device_id=torch.device("cpu"), use_orig_params=False
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(1 + dist.get_rank())
for _step in range(6):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    model.clip_grad_norm_(0.5)
    optimizer.step()
dist.destroy_process_group()
