"""A heartbeat thread has a group of its own, and the steps of an asyncio program run in an executor's thread."""

import asyncio
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def beat(group, done):
    alive = torch.ones(1)
    for _ in range(40):
        done.wait(0.05)
        dist.all_reduce(alive, group=group)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(8, 12)).square().mean().backward()
    optimizer.step()


async def main():
    dist.init_process_group("gloo")
    done = threading.Event()
    heart = threading.Thread(target=beat, args=(dist.new_group(), done))
    model = DistributedDataParallel(nn.Linear(12, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    heart.start()
    loop = asyncio.get_running_loop()
    for _ in range(60):
        await loop.run_in_executor(None, step, model, optimizer)
        await asyncio.sleep(0.002)
    done.set()
    heart.join()
    dist.destroy_process_group()


asyncio.run(main())
