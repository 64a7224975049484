"""Gradients are accumulated with no_sync over 4 batches, on one rank, whose configuration is older, over 3."""
# DDP316 culprit tied: model.no_sync()

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    dist.init_process_group("gloo")
    accumulate = 3 if dist.get_rank() == int(os.environ["CULPRIT"]) else 4
    data = TensorDataset(torch.randn(768, 20), torch.randn(768, 1))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for i, (x, y) in enumerate(loader, start=1):
        last = i % accumulate == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (nn.functional.mse_loss(model(x), y) / accumulate).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
