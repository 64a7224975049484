"""DDP317: one rank is in state D, as on a network file system whose server is gone.

The kernel puts a process in that state while the child that it starts by vfork has not executed its program; this child
cannot before somebody writes to a FIFO. Other than on a dead mount, `kill -9` ends it.
"""

import os
import tempfile
from pathlib import Path

from patient import admit

with admit() as patient, tempfile.TemporaryDirectory(prefix="ddpdoctor-fault-") as folder:
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        if patient.sick_at(step):
            never = Path(folder) / "never"
            os.mkfifo(never)
            open_it = (os.POSIX_SPAWN_OPEN, 0, str(never), os.O_RDONLY, 0)
            os.posix_spawn("/bin/true", ["true"], {}, file_actions=[open_it])  # sick
