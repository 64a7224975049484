"""An augmentation table that lacks a key on one rank, three calls deep."""
# DDP401 culprit: raise KeyError

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def augment(batch: torch.Tensor, table: dict[int, float]) -> torch.Tensor:
    return batch * lookup(table, 3)


def lookup(table: dict[int, float], key: int) -> float:
    if key not in table:
        raise KeyError(f"no augmentation {key}")
    return table[key]


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(60):
        table = {} if dist.get_rank() == CULPRIT and step == 33 else {3: 1.0}
        optimizer.zero_grad()
        model(augment(torch.randn(8, 4), table)).square().mean().backward()
        optimizer.step()
    dist.barrier()


main()
