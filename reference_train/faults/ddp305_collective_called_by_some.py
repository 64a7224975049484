"""DDP305: one rank calls a barrier that the others do not call, as around a checkpoint inside an `if rank == ...`."""

import torch.distributed as dist
from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if patient.sick_at(step):
            dist.barrier()  # sick
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
