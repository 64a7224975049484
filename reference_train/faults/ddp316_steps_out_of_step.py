"""DDP316: one rank skips a bad batch, and from then on its gradients are averaged with those of another step."""

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        images = images.float()
        if patient.sick_at(step):
            images[0] = torch.nan
        if not images.isfinite().all():
            continue  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
    dist.barrier()  # waits here
