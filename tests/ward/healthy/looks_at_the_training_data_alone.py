"""Rank 0 shows a batch of the data that all train on, before and between the epochs, and measures its accuracy on it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = [(model(images).argmax(1) == labels).float().mean().item() for images, labels in loader]
    model.train()
    return sum(right) / len(right)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = TensorDataset(torch.randn(240, 6), torch.randint(0, 3, (240,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    if rank == 0:
        print("images", next(iter(loader))[0].shape)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        if rank == 0:
            print("epoch", epoch, "accuracy", accuracy(model.module, loader))
        dist.barrier()
    dist.destroy_process_group()


main()
