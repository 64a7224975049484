"""DDP402: one rank keeps every batch, and the memory limit of its container ends it.

The container is a cgroup that this program makes for its sick rank (version 1 or 2 of the interface); that needs root.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from patient import admit

ROOT = Path("/sys/fs/cgroup")
LIMIT_BYTES = 1 << 30


def enter_container() -> None:
    """Move this process into a cgroup of its own with a limit of 1 GiB."""
    memory = ROOT / "memory"
    parent = memory if memory.is_dir() else ROOT
    folder = parent / f"ddpdoctor-fault-{os.getpid()}"
    for earlier in parent.glob("ddpdoctor-fault-*"):
        with suppress(OSError):  # somebody is in there
            earlier.rmdir()
    try:
        folder.mkdir()
        limit = folder / ("memory.limit_in_bytes" if memory.is_dir() else "memory.max")
        limit.write_text(str(LIMIT_BYTES))
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        sys.exit(f"this fault needs a memory cgroup of its own, as root: {error}")


with admit() as patient:
    if patient.is_culprit:
        enter_container()
    model = patient.wrap(patient.network())
    optimizer = patient.optimizer(model)
    kept = []
    for step, images, labels in patient.batches():
        optimizer.zero_grad()
        patient.loss(model, images, labels).backward()
        optimizer.step()
        while patient.is_culprit and step >= patient.at_step:
            kept.append(images.float().repeat(1000, 1, 1))  # sick
