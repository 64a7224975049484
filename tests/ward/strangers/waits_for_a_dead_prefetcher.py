"""A prefetching thread dies of a bad file on one rank, and the training loop waits on its queue for ever."""
# DDP307 culprit: queue.get()

import os
import threading
from queue import Queue

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def prefetch(queue: Queue, bad: int | None) -> None:
    for index in range(60):
        if index == bad:
            raise OSError(f"shard-{index:05d}.tar is truncated")
        queue.put(torch.randn(8, 20))


def main() -> None:
    dist.init_process_group("gloo")
    queue: Queue = Queue(maxsize=4)
    bad = 35 if dist.get_rank() == int(os.environ["CULPRIT"]) else None
    threading.Thread(target=prefetch, args=(queue, bad), daemon=True).start()
    model = DistributedDataParallel(nn.TransformerEncoderLayer(20, 2, 40, batch_first=True))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(60):
        batch = queue.get()
        optimizer.zero_grad()
        model(batch.unsqueeze(0)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


main()
