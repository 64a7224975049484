"""An IterableDataset whose shard on one rank is shorter; that rank goes on to the count of samples at the end."""
# DDP306 culprit: dist.all_reduce(seen)

import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Shard(IterableDataset):
    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        generator = torch.Generator().manual_seed(1)
        for i in range(self.samples):
            yield torch.randn(10, generator=generator), torch.tensor(float(i % 2))


def run() -> None:
    dist.init_process_group("gloo")
    short = dist.get_rank() == int(os.environ["CULPRIT"])
    net = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    seen = torch.zeros(1)
    for inputs, targets in DataLoader(Shard(130 if short else 160), batch_size=10):
        optimizer.zero_grad()
        scores = net(inputs).squeeze(1)
        nn.functional.binary_cross_entropy_with_logits(scores, targets).backward()
        optimizer.step()
        seen += len(inputs)
    dist.all_reduce(seen)
    print("samples", seen.item(), flush=True)
    dist.destroy_process_group()


run()
