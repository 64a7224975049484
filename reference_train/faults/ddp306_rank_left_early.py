"""DDP306: one rank stops early on its own validation loss, without asking the others.

`--how wait`: it waits in the barrier at the end. `--how exit`: there is no barrier, and its process ends with code 0.
"""

import torch.distributed as dist
from patient import admit

with admit(how="wait") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        if patient.sick_at(step):
            break
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
    if patient.options.how == "wait":
        dist.barrier()  # sick
