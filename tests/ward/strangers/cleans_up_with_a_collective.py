"""A step raises on one rank, and its `finally` sums the losses over the ranks before the error can be seen."""
# DDP306/DDP302 culprit: loss = model(tokens(step))

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])
VOCABULARY = 50


def tokens(step: int) -> torch.Tensor:
    batch = torch.randint(0, VOCABULARY, (6, 12))
    if dist.get_rank() == CULPRIT and step == 23:
        batch[0, 0] = VOCABULARY
    return batch


def run_epoch(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    epoch_loss = torch.zeros(1)
    try:
        for step in range(40):
            optimizer.zero_grad()
            loss = model(tokens(step)).square().mean()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.detach()
    finally:
        dist.all_reduce(epoch_loss)
    return epoch_loss.item()


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Flatten(), nn.Linear(96, 4)))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        run_epoch(model, optimizer)
    dist.destroy_process_group()


main()
