"""DDP318: the training is over, but a thread of one rank keeps its process alive."""

import threading
import time

from patient import admit


def upload() -> None:
    """Wait for a server that does not answer."""
    time.sleep(3600)  # sick


with admit() as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if patient.sick_at(step):
            threading.Thread(target=upload, name="uploader").start()
