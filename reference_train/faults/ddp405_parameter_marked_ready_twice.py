"""DDP405: a re-entrant checkpoint under find_unused_parameters computes its gradients twice."""

import torch
from patient import admit
from torch import nn
from torch.utils.checkpoint import checkpoint


class Checkpointed(nn.Module):
    """The reference model, computed again in the backward to save memory."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores."""
        return checkpoint(self.network, images.requires_grad_(), use_reentrant=True)  # type: ignore[no-any-return]


with admit() as patient:
    model = patient.wrap(Checkpointed(patient.network()), find_unused_parameters=True)
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()  # sick
        optimizer.step()
