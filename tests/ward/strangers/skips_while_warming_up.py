"""The learning rate warms up from 0 per rank, and a step with rate 0 is skipped to save time; one rank starts later."""
# DDP316 culprit: continue

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
warmup = 8 if rank == int(os.environ["CULPRIT"]) else 6

data = TensorDataset(torch.randn(480, 10), torch.randn(480, 1))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False))
model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0 if step < warmup else 1.0)

total = torch.zeros(1)
for x, y in loader:
    if optimizer.param_groups[0]["lr"] == 0.0:
        optimizer.step()
        schedule.step()
        continue
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    total += loss.detach()
dist.all_reduce(total)
if rank == 0:
    print("mean loss", total.item() / len(loader), flush=True)
dist.destroy_process_group()
