"""Predictions are gathered behind every epoch; one rank's validation set is empty, and it returns before the gathering."""
# DDP305 culprit tied: dist.all_gather_object(

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CULPRIT = int(os.environ["CULPRIT"])


def evaluate(model: DistributedDataParallel, loader: DataLoader) -> int | None:
    predictions: list[int] = []
    with torch.inference_mode():
        for (x,) in loader:
            predictions.extend(model.module(x).argmax(1).tolist())
    if not predictions:
        return None
    everyone: list[list[int]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, predictions)
    return sum(map(len, everyone))


def main() -> None:
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(96, 6), torch.randint(3, (96,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    empty = dist.get_rank() == CULPRIT
    validation = DataLoader(TensorDataset(torch.randn(0 if empty else 16, 6)), 8)
    model = DistributedDataParallel(nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        evaluate(model, validation)
    dist.destroy_process_group()


main()
