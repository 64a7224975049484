"""DDP403: somebody, or the hardware, ends one rank with a signal (`--how SIGSEGV` for another)."""

import os
import signal

from patient import admit

with admit(how="SIGKILL") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        if patient.sick_at(step):
            os.kill(os.getpid(), signal.Signals[patient.options.how])  # sick
        optimizer.step()
