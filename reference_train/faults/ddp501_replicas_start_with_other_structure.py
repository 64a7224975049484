"""DDP501: one rank registers two equal layers in another order (`--how freeze`: freezes another)."""

import torch
from patient import admit
from torch import Tensor, nn


class Two(nn.Module):
    """Two layers of one shape, registered in the order given."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(784, 784))
        self.scores = nn.Linear(784, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of shape (batch, 10)."""
        layers: dict[str, nn.Module] = dict(self.named_children())
        x = images.flatten(1)
        for name in ("first", "second", "scores"):
            x = layers[name](x).relu()
        return x


with admit(how="order") as patient:
    how = patient.options.how
    torch.manual_seed(1)
    names = ["first", "second"]
    network = Two(names[::-1] if patient.is_culprit and how == "order" else names)  # sick
    if how == "freeze":
        (network.second if patient.is_culprit else network.first).requires_grad_(False)  # sick
    model = patient.wrap(network)
    optimizer = patient.optimizer(model)
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
