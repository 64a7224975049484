"""A machine that has other things to do: processes that keep every core busy."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from ddpdoctor.launch.guarded_process import end, start_guarded


@contextlib.contextmanager
def busy(processes: int | None = None) -> Iterator[None]:
    """Keep the cores busy meanwhile, with as many processes as there are cores unless told otherwise."""
    count = len(os.sched_getaffinity(0)) if processes is None else processes
    with contextlib.ExitStack() as running:
        for _ in range(count):
            running.callback(end, start_guarded([sys.executable, "-c", "while True: pass"], grace_seconds=0.1))
        yield
