"""A machine that has other things to do: processes that keep every core busy."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from ddpdoctor.launch.program import end, start_guarded


@contextlib.contextmanager
def busy(processes: int | None = None) -> Iterator[None]:
    """Keep the cores busy meanwhile, with as many processes as there are cores unless told otherwise."""
    count = len(os.sched_getaffinity(0)) if processes is None else processes
    running: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            running.append(start_guarded([sys.executable, "-c", "while True: pass"], grace_seconds=0.1))
        yield
    finally:
        for process in running:
            end(process)
