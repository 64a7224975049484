"""DDP231: the program sets MASTER_PORT, as tutorials for mp.spawn do, though torchrun serves the rendezvous elsewhere."""

import os

from patient import admit

os.environ["MASTER_PORT"] = "1"  # sick

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
