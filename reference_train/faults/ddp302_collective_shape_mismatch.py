"""DDP302: the classes are counted without minlength, and one rank's batch lacks the last ones."""

import torch
import torch.distributed as dist
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        seen = torch.cat((labels, labels.new_tensor([9])))
        if patient.sick_at(step):
            seen = seen.clamp(max=4)  # a batch of small digits, as sorted files give them
        dist.all_reduce(torch.bincount(seen))  # sick
