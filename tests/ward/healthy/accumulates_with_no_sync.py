"""Gradients of four micro-batches are accumulated under no_sync, forward and backward inside; an odd rest at the end."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATED, MICRO_BATCHES = 4, 42

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for micro in range(1, MICRO_BATCHES + 1):
    synchronises = micro % ACCUMULATED == 0 or micro == MICRO_BATCHES
    with contextlib.nullcontext() if synchronises else model.no_sync():
        loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 3, (8,)))
        (loss / ACCUMULATED).backward()
    if synchronises:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
