"""DDP310: one rank is stopped, as Ctrl-Z, a debugger or a batch system that suspends jobs would do."""

import os
import signal

from patient import admit

with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            os.kill(os.getpid(), signal.SIGSTOP)  # sick
        optimizer.step()
