"""Rank 0 evaluates for twenty seconds on the plain module, reading its data between; the others wait in the next step."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

SECONDS = 20.0


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> float:
    total, begin = 0.0, time.monotonic()
    while time.monotonic() - begin < SECONDS:
        total += sum(model(x).sum().item() for (x,) in loader)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(512, 32)), batch_size=64)
    for epoch in range(2):
        for _ in range(30):
            optimizer.zero_grad()
            model(torch.randn(8, 32)).square().mean().backward()
            optimizer.step()
        if epoch == 0 and dist.get_rank() == 0:
            print(f"{evaluate(model.module, loader):.3f}", flush=True)
    dist.destroy_process_group()


main()
