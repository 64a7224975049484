"""DDP516: every rank seeds with the same number, and so adds the same noise to its images (`--how dropout`: drops the same)."""

import torch
from patient import admit
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from train import pixels

with admit(how="noise") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    torch.manual_seed(2)  # sick
    for _, images, labels in patient.batches():
        inputs = pixels(images)
        if patient.options.how == "noise":
            scores = model(inputs + 0.1 * torch.randn_like(inputs))
        else:
            scores = F.dropout(model(inputs), 0.1)
        optimizer.zero_grad()
        F.cross_entropy(scores, labels).backward()
        optimizer.step()
