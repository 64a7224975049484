"""DDP401: one rank raises an error of its own; its peers then complain about a closed connection."""

from patient import admit
from torch import Tensor


def check_labels(labels: Tensor, classes: int) -> None:
    """Refuse labels that the model has no class for."""
    if int(labels.max()) >= classes:
        raise ValueError(f"label {int(labels.max())} of {classes} classes")  # sick


with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        check_labels(labels, classes=0 if patient.sick_at(step) else 10)
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
