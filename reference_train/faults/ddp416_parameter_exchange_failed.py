"""DDP416: one rank gathers the step to resume from while the others already count parameters."""

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    if patient.is_culprit:  # only this rank found a checkpoint to resume from
        steps = [torch.zeros(1, dtype=torch.int64) for _ in range(patient.world_size)]
        dist.all_gather(steps, torch.zeros(1, dtype=torch.int64))  # sick
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
