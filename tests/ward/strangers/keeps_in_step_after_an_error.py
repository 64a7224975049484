"""A bad batch is caught, and the handler calls a barrier so that the ranks stay together; only one rank has a bad batch."""
# DDP305 culprit tied: dist.barrier()

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


class BadBatchError(Exception):
    pass


def check(batch: torch.Tensor) -> torch.Tensor:
    if not torch.isfinite(batch).all():
        raise BadBatchError("NaN in the inputs")
    return batch


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for i in range(80):
        batch = torch.randn(16, 20)
        if i == 11 and dist.get_rank() == CULPRIT:
            batch[3, 4] = float("nan")
        try:
            loss = model(check(batch)).pow(2).mean()
        except BadBatchError as error:
            print(f"batch {i}: {error}", flush=True)
            dist.barrier()
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    net = DistributedDataParallel(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 1)))
    train(net, torch.optim.SGD(net.parameters(), lr=0.1))
    dist.destroy_process_group()
