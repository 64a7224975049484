"""Inside the evaluation one rank has one batch more than the others, and each batch gathers the predictions."""
# DDP305 culprit tied: dist.all_gather_object(everyone, predictions)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def evaluate(model: nn.Module, batches: int) -> int:
    total = 0
    for _ in range(batches):
        predictions = model(torch.randn(4, 6)).argmax(1).tolist()
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, predictions)
        total += sum(len(part) for part in everyone)
    return total


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(6, 3))
optimizer = torch.optim.Adagrad(model.parameters())
for epoch in range(3):
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).logsumexp(1).sum().backward()
        optimizer.step()
    print(evaluate(model.module, batches=5 + (epoch == 1 and dist.get_rank() == CULPRIT)), flush=True)
dist.destroy_process_group()
