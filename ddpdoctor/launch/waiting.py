"""Waits for the end of a process without looking again and again."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
from typing import Any


def wait_for_end(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """The exit code of `process` (-N for signal N) once it has ended, or None after `seconds`.

    The kernel wakes us. `Popen.wait` with a timeout looks up to 50 times in a second; it is used where the kernel or
    this Python has no descriptors of processes.
    """
    code = process.poll()
    if code is not None or seconds <= 0.0:
        return code
    try:
        ended = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=seconds)
        return None
    try:
        waiting = select.poll()
        waiting.register(ended, select.POLLIN)
        waiting.poll(seconds * 1000)
    finally:
        os.close(ended)
    return process.poll()
