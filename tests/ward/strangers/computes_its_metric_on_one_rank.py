"""A metric object that synchronises inside compute(), as torchmetrics does; one rank alone shows it in a progress bar."""
# DDP305 culprit: dist.all_gather

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SHOWS = int(os.environ["CULPRIT"])


class Metric:
    def __init__(self):
        self.states = {"correct": torch.zeros(()), "total": torch.zeros(())}

    def update(self, scores, labels):
        self.states["correct"] += (scores.argmax(1) == labels).sum()
        self.states["total"] += len(labels)

    def _sync(self):
        synced = {}
        for name, value in self.states.items():
            values = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
            dist.all_gather(values, value)
            synced[name] = torch.stack(values).sum()
        return synced

    def compute(self):
        state = self._sync()
        return (state["correct"] / state["total"]).item()

    def __str__(self):
        return f"{self.compute():.1%}"


class Progress:
    def __init__(self, metric):
        self.metric = metric

    def show(self, step):
        print(f"step {step} accuracy {self.metric}", flush=True)


def main():
    dist.init_process_group("gloo")
    accuracy = Metric()
    bar = Progress(accuracy)
    model = DistributedDataParallel(nn.Linear(20, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 61):
        x, y = torch.randn(16, 20), torch.randint(0, 5, (16,))
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy.update(scores.detach(), y)
        if step % 25 == 0 and dist.get_rank() == SHOWS:
            bar.show(step)
    dist.destroy_process_group()


main()
