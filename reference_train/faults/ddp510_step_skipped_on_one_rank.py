"""DDP510: one rank skips a step by itself, for a loss that looks wrong (`--how scaler`: its GradScaler does, for its own inf)."""

import torch
from patient import admit

with admit(how="continue") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    scaler = torch.amp.GradScaler(patient.device.type, enabled=patient.options.how == "scaler")
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        scaler.scale(patient.loss(model, images, labels)).backward()
        if patient.sick_at(step) and patient.options.how == "continue":
            continue  # sick continue
        if patient.sick_at(step):
            model.module.scores.bias.grad.fill_(torch.inf)
        scaler.step(optimizer)  # sick scaler
        scaler.update()
