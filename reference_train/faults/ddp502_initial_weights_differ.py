"""DDP502: every rank seeds differently, and the wrapper is told not to synchronise."""

import torch
from patient import admit
from train import DigitNet

with admit() as patient:
    torch.manual_seed(patient.is_culprit)
    model = patient.wrap(DigitNet(), init_sync=False)  # sick
    optimizer = patient.optimizer(model)
    for _, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
