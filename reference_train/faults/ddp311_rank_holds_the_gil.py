"""DDP311: one rank calls into C and keeps the interpreter to itself, so that no thread of it can run."""

import ctypes

from patient import admit

with admit() as patient:
    libc = ctypes.PyDLL(None)  # CDLL would release the GIL during a call; PyDLL, like many extensions, does not
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if patient.sick_at(step):
            libc.sleep(3600)  # sick
