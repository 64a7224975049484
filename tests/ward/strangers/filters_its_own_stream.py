"""Records without a label are left out of a stream of so many records; one rank's shard has such a record."""
# DDP316 culprit tied: dist.all_reduce(seen)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
unlabelled = {9} if dist.get_rank() == int(os.environ["CULPRIT"]) else set()
generator = torch.Generator().manual_seed(dist.get_rank())
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 2)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

record = 0
while record < 50:
    record += 1
    if record in unlabelled:
        continue
    x, label = torch.randn(8, 16, generator=generator), torch.randint(2, (8,), generator=generator)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), label).backward()
    optimizer.step()
seen = torch.tensor(record)
dist.all_reduce(seen)
dist.destroy_process_group()
