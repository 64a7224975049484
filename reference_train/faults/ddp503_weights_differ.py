"""DDP503: one bit of one weight flips during a step, as bad memory does it."""

import torch
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)

    def flip(*_: object) -> None:
        """After the step's arithmetic, before anybody looks."""
        with torch.no_grad():
            model.module.hidden.weight.view(torch.int32)[0, 0] ^= 1 << 20  # sick

    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        handle = optimizer.register_step_post_hook(flip) if patient.sick_at(step) else None
        optimizer.step()
        if handle is not None:
            handle.remove()
