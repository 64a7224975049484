"""A thread draws the batches ahead of the training loop, as far as its queue has room: how far differs between ranks."""

import queue
import random
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Ahead:
    def __init__(self, loader: DataLoader) -> None:
        self._batches: queue.Queue = queue.Queue(3)
        threading.Thread(target=self._draw, args=(loader,), daemon=True).start()

    def _draw(self, loader: DataLoader) -> None:
        for batch in loader:
            time.sleep(random.random() / 100)
            self._batches.put(batch)
        self._batches.put(None)

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        while (batch := self._batches.get()) is not None:
            yield batch


def main() -> None:
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(480, 12), torch.randn(480, 1))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for inputs, wanted in Ahead(DataLoader(data, batch_size=8, sampler=sampler)):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
    dist.destroy_process_group()


main()
