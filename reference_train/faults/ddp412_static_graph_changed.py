"""DDP412: the wrapper was promised the same graph at every step, and a layer is skipped later."""

import torch
from patient import admit
from torch import nn


class WithHead(nn.Module):
    """The reference model, and one more layer that is left out for a while, as in a warm-up."""

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
    model = patient.wrap(network, static_graph=True)
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        network.use_head = step < patient.at_step
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()  # sick
        optimizer.step()
