"""Rank 0 writes checkpoints slowly while the others wait; after the training it goes on alone and exports the model."""

import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def save_slowly(model: nn.Module, folder: str, seconds: float) -> None:
    """Write the weights in pieces, each one waited for, as onto a slow disk."""
    torch.save(model.state_dict(), Path(folder) / "last.part")
    time.sleep(seconds)
    Path(folder, "last.part").rename(Path(folder) / "last.pt")


dist.init_process_group("gloo")
leads = dist.get_rank() == 0
model = DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with tempfile.TemporaryDirectory() as folder:
    for step in range(30):
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        if step % 10 == 9:
            if leads:
                save_slowly(model.module, folder, seconds=4)
            dist.barrier()
    dist.destroy_process_group()
    if leads:
        save_slowly(model.module, folder, seconds=6)
