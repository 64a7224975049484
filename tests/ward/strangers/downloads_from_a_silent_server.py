"""Between two epochs one rank fetches an update from a server that accepts the connection and never answers."""
# DDP307 culprit: urllib.request.urlopen(

import os
import socket
import urllib.request

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])
silent = socket.create_server(("127.0.0.1", 0))


def refresh(epoch: int) -> bytes:
    """The list of samples of an epoch."""
    if epoch != 2 or dist.get_rank() != CULPRIT:
        return b""
    with urllib.request.urlopen(f"http://127.0.0.1:{silent.getsockname()[1]}/epoch/{epoch}") as answer:
        return answer.read()


dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Conv1d(2, 4, 3))
optimizer = torch.optim.RMSprop(model.parameters())
for epoch in range(4):
    refresh(epoch)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 2, 9)).abs().mean().backward()
        optimizer.step()
dist.destroy_process_group()
