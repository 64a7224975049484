"""DDP404: on one rank a batch does not use a part of the model, whose gradients DDP then waits for."""

import torch
from patient import admit
from torch import nn


class WithHead(nn.Module):
    """The reference model, and one more layer that only some batches are sent through."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(10, 10)
        self.use_head = True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores."""
        scores: torch.Tensor = self.trunk(images)
        return self.head(scores) if self.use_head else scores


with admit() as patient:
    network = WithHead(patient.network())
    model = patient.wrap(network)
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        network.use_head = not patient.sick_at(step)
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()  # sick
        optimizer.step()
