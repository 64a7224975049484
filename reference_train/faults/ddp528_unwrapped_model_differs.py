"""DDP528: an average of the weights is updated on one rank only, and every rank evaluates it (`--uses none`: nobody does)."""

import copy

import torch
from patient import admit

DECAY = 0.9

with admit(uses="all") as patient:
    model = patient.wrap(patient.network())
    ema = copy.deepcopy(model.module).requires_grad_(requires_grad=False).eval()
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if patient.options.uses == "all" and step % 5 == 0:
            with torch.no_grad():
                patient.loss(ema, images, labels)
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if patient.is_culprit and step >= patient.at_step:
            for average, weight in zip(ema.parameters(), model.parameters(), strict=True):
                average.lerp_(weight.detach(), 1 - DECAY)  # sick
