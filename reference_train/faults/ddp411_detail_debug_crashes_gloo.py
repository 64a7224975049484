"""DDP411: TORCH_DISTRIBUTED_DEBUG=DETAIL, set to find a bug, makes DDP over gloo die of SIGSEGV."""

import os

os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"  # read when torch is imported

from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())  # sick
    optimizer = patient.optimizer(model)
    for _step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
