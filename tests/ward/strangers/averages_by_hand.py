"""No DDP at all: gradients are averaged by hand, and one rank's counter has become a double on the way."""
# DDP303 culprit tied: dist.all_reduce(norm)

import os

import torch
import torch.distributed as dist
from torch import nn

CULPRIT = int(os.environ["CULPRIT"])

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
for step in range(20):
    model.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    norm = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
    if dist.get_rank() == CULPRIT and step == 12:
        norm = norm.double()
    dist.all_reduce(norm)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
