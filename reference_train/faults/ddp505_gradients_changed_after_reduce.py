"""DDP505: one rank clips its averaged gradients, the others do not (`--how noise` for random noise)."""

import torch
from patient import admit

with admit(how="clip") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.is_culprit and step >= patient.at_step:
            if patient.options.how == "clip":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)  # sick
            else:
                for gradient in (parameter.grad for parameter in model.parameters()):
                    if gradient is not None:
                        gradient.add_(torch.randn_like(gradient), alpha=1e-3)  # sick
        optimizer.step()
