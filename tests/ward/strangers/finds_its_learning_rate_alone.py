"""A learning-rate finder runs 12 steps of the wrapped model on one rank before training; nobody sees it until the end."""
# DDP305 culprit tied: loss.backward()

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def find_lr(model, loss_fn, start=1e-5, end=1.0, steps=12):
    opt = torch.optim.SGD(model.parameters(), lr=start)
    best, best_lr = float("inf"), start
    for i in range(steps):
        lr = start * (end / start) ** (i / steps)
        for g in opt.param_groups:
            g["lr"] = lr
        opt.zero_grad()
        loss = loss_fn(model(torch.randn(8, 10)), torch.randn(8, 1))
        loss.backward()
        opt.step()
        if loss.item() < best:
            best, best_lr = loss.item(), lr
    return best_lr


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1)))
    loss_fn = nn.MSELoss()
    lr = 1e-2
    if dist.get_rank() == CULPRIT:
        lr = find_lr(model, loss_fn)
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(60):
        opt.zero_grad()
        loss_fn(model(torch.randn(8, 10)), torch.randn(8, 1)).backward()
        opt.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
