"""A trainer class whose log line reduces a meter over the ranks, but one rank alone writes log lines."""
# DDP305 culprit tied: dist.all_reduce(average)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LOGGING_RANK = int(os.environ["CULPRIT"])


class Meter:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.total += value
        self.count += 1

    def reduce(self) -> float:
        average = torch.tensor([self.total / self.count])
        dist.all_reduce(average)
        return average.item() / dist.get_world_size()


class Trainer:
    def __init__(self) -> None:
        self.net = DistributedDataParallel(nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 3)))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.meter = Meter()

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.meter.update(loss.item())

    def fit(self) -> None:
        for i in range(1, 101):
            self.step(torch.randn(8, 12), torch.randint(0, 3, (8,)))
            if i % 25 == 0 and dist.get_rank() == LOGGING_RANK:
                print(i, self.meter.reduce(), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().fit()
    dist.barrier()
    dist.destroy_process_group()
