"""DDP307: one rank does not come back from code of its own, and the others wait for it.

`--how` says from what: sleep, lock, pipe (a read that nobody answers), subprocess, or compute (a search that never ends).
"""

import itertools
import os
import subprocess
import threading
import time

from patient import admit


def stay_away(how: str) -> None:
    """Never come back."""
    match how:
        case "sleep":
            time.sleep(3600)  # sick sleep
        case "lock":
            cache = threading.Lock()
            with cache:
                cache.acquire()  # sick lock
        case "pipe":
            reader, _writer = os.pipe()
            os.read(reader, 1)  # sick pipe
        case "subprocess":
            subprocess.run(["sleep", "3600"], check=True)  # sick subprocess
        case "compute":
            any(number * number == 2 for number in itertools.count())  # sick compute
        case _:
            raise ValueError(f"--how {how} is not one of sleep, lock, pipe, subprocess, compute")


with admit(how="sleep") as patient:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if patient.sick_at(step):
            stay_away(patient.options.how)
