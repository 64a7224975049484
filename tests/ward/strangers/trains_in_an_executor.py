"""An asyncio program whose steps run in an executor's thread; on one rank the thread waits for a batch nobody sends."""
# DDP307 culprit: self.batches.get()

import asyncio
import os
import queue

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Worker:
    def __init__(self) -> None:
        self.batches: queue.Queue[torch.Tensor] = queue.Queue(4)
        self.model = DistributedDataParallel(nn.Linear(12, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self) -> float:
        batch = self.batches.get()
        self.optimizer.zero_grad()
        loss = self.model(batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    async def feed(self) -> None:
        for number in range(60):
            if number == 25 and dist.get_rank() == int(os.environ["CULPRIT"]):
                return
            await asyncio.get_running_loop().run_in_executor(None, self.batches.put, torch.randn(8, 12))

    async def train(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(60):
            await loop.run_in_executor(None, self.step)


async def main() -> None:
    dist.init_process_group("gloo")
    worker = Worker()
    await asyncio.gather(worker.feed(), worker.train())
    dist.destroy_process_group()


asyncio.run(main())
