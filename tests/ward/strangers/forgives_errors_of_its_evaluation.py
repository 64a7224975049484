"""An evaluation is best effort: its errors are caught. One rank's is cut short before the sum over the ranks at its end."""
# DDP305/DDP316 culprit tied: dist.all_reduce(hits)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def accuracy(model: DistributedDataParallel, epoch: int) -> float:
    hits = torch.zeros(2)
    for batch in range(4):
        broken = dist.get_rank() == CULPRIT and epoch == 1 and batch == 2
        x, y = torch.randn(5, 8 if broken else 7), torch.randint(3, (5,))
        hits += torch.tensor([(model.module(x).argmax(1) == y).sum().item(), 5])
    dist.all_reduce(hits)
    return (hits[0] / hits[1]).item()


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(7, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        for _ in range(6):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.randn(5, 7)), torch.randint(3, (5,))).backward()
            optimizer.step()
        try:
            print(epoch, accuracy(model, epoch))
        except RuntimeError:
            print(epoch, "not known")
    dist.destroy_process_group()


main()
