"""A watchdog thread of the user's own ends the process with os._exit(3) when a step takes too long; nothing is printed."""
# DDP401 culprit:

import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


class Watchdog:
    def __init__(self, limit: float) -> None:
        self.limit, self.fed = limit, time.monotonic()
        threading.Thread(target=self.run, daemon=True).start()

    def feed(self) -> None:
        self.fed = time.monotonic()

    def run(self) -> None:
        while True:
            time.sleep(0.1)
            if time.monotonic() - self.fed > self.limit:
                os._exit(3)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watchdog = Watchdog(1.0 if rank == CULPRIT else 600.0)
    for step in range(50):
        if rank == CULPRIT and step == 20:
            time.sleep(30)  # slow storage
        loss = model(torch.randn(4, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        watchdog.feed()
    dist.destroy_process_group()


main()
