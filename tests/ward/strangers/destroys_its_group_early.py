"""One rank believes that it is done after its epochs, destroys the process group and goes on to write its report."""
# DDP306 culprit:

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    epochs = 2 if rank == int(os.environ["CULPRIT"]) else 3
    model = DistributedDataParallel(nn.Linear(30, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _epoch in range(epochs):
        for _ in range(25):
            optimizer.zero_grad()
            model(torch.randn(6, 30)).logsumexp(1).mean().backward()
            optimizer.step()
    dist.destroy_process_group()
    time.sleep(2)
    print(f"rank {rank}: report written", flush=True)


if __name__ == "__main__":
    main()
