"""DDP518: a second module is trained, but only the first is wrapped."""

import torch
from patient import admit
from torch import nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from train import pixels

with admit() as patient:
    model = patient.wrap(patient.network())
    head = nn.Linear(10, 10)  # sick
    with torch.no_grad():
        head.weight.copy_(torch.eye(10))
        head.bias.zero_()
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.02)
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        F.cross_entropy(head(model(pixels(images))), labels).backward()
        optimizer.step()
