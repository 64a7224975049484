"""DDP507: one rank resumes without its optimizer's state."""

import torch
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            for state in optimizer.state.values():
                state["momentum_buffer"] = torch.zeros_like(state["momentum_buffer"])  # sick
        optimizer.step()
