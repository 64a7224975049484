"""DDP312: two groups, and one rank synchronises them in the opposite order."""

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    generator, discriminator = dist.new_group(), dist.new_group()
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        order = [generator, discriminator]
        if patient.sick_at(step):
            order.reverse()
        for group in order:
            dist.all_reduce(torch.ones(4), group=group)  # sick
