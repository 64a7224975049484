"""DDP301: one rank adds its loss up with reduce where the others use all_reduce."""

import torch.distributed as dist
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        loss = patient.loss(model, images, labels)
        loss.backward()
        optimizer.step()
        total = loss.detach()
        if patient.sick_at(step):
            dist.reduce(total, dst=patient.rank)  # sick
        else:
            dist.all_reduce(total)
