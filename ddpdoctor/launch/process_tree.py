"""Finding and ending every process of a job. Standard library only: `stderr_tee.py` runs it in a bare interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from ddpdoctor.launch.process_files import read_of_process

POLL_SECONDS = 0.05


def members(root: int, mark: str) -> list[int]:
    """The living processes of a job: those below `root`, and those whose environment holds `mark` (`NAME=value`).

    A worker that made a session of its own and lost its parent is below nobody any more; its environment tells.
    """
    parents: dict[int, int] = {}
    marked: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            pid = int(entry.name)
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] in "ZX":
                    continue
                parents[pid] = int(fields[1])
                if f"\0{mark}\0".encode() in b"\0" + read_of_process(pid, "environ"):
                    marked.add(pid)
    below = {root} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted((below | marked) - {os.getpid()})


def end(root: int, mark: str, *, grace_seconds: float) -> None:
    """End every process of the job: SIGTERM, SIGCONT for those that are stopped, and SIGKILL after the grace."""
    deadline = time.monotonic() + grace_seconds
    asked: set[int] = set()
    while alive := members(root, mark):
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in asked:
                    asked.add(pid)
                    os.kill(pid, signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)
        if time.monotonic() > deadline + grace_seconds:
            return  # in uninterruptible IO: nothing can end it
        time.sleep(POLL_SECONDS)
