"""Run by `verify-sync`: a healthy job with everything at once that looks like replicas out of step and is not.

Dropout and augmentation with a seed a rank, BatchNorm, accumulation under no_sync, a sampler that pads, an average of the
weights kept alike on all ranks, an evaluation on rank 0 alone, a handle that is waited for.
"""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
data = TensorDataset(torch.randn(103, 8), torch.randint(0, 4, (103,)))
network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
model = DistributedDataParallel(network)
average = copy.deepcopy(model.module)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
sampler = DistributedSampler(data, seed=1)
loader = DataLoader(data, batch_size=4, sampler=sampler)
torch.manual_seed(100 + rank)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for number, (inputs, labels) in enumerate(loader):
        noisy = inputs + 0.01 * torch.randn_like(inputs)
        if number % 2 == 0:
            with model.no_sync():
                nn.functional.cross_entropy(model(noisy), labels).backward()
            continue
        loss = nn.functional.cross_entropy(model(noisy), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for kept, new in zip(average.parameters(), model.module.parameters(), strict=True):
                kept.lerp_(new, 0.1)
        mean = loss.detach().clone()
        handle = dist.all_reduce(mean, async_op=True)
        handle.wait()
    if rank == 0:
        model.module.eval()
        with torch.no_grad():
            print("accuracy", (model.module(data.tensors[0]).argmax(1) == data.tensors[1]).float().mean().item())
        model.module.train()
    dist.barrier()
dist.destroy_process_group()
