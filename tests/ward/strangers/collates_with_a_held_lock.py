"""A data loader worker of one rank waits in its collate function for a lock that nobody will release."""
# DDP308 culprit:

import multiprocessing
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, default_collate

BATCH = 8


class Collate:
    def __init__(self, sticks_at: int | None) -> None:
        self.lock = multiprocessing.Lock()
        self.sticks_at = sticks_at

    def __call__(self, samples: list) -> list:
        inputs, numbers = default_collate(samples)
        if self.sticks_at is not None and self.sticks_at in numbers.tolist():
            self.lock.acquire()
        with self.lock:
            return [inputs, numbers]


def main() -> None:
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(400, 6), torch.arange(400))
    sampler = DistributedSampler(data, shuffle=False)
    mine = list(sampler)
    sticks_at = mine[12 * BATCH] if dist.get_rank() == int(os.environ["CULPRIT"]) else None
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=1, collate_fn=Collate(sticks_at))
    model = DistributedDataParallel(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, _ in loader:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    dist.barrier()


if __name__ == "__main__":
    main()
