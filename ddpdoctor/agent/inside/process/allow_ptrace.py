"""Let the watcher's py-spy attach where the kernel allows it to a parent only (Yama's ptrace_scope 1, as on Ubuntu)."""

from __future__ import annotations

import ctypes

PR_SET_PTRACER = 0x59616D61


def allow_stacks(watcher: str) -> None:
    """Name the watcher, and with it its descendants, as processes that may trace this one; no effect without Yama."""
    if watcher.isdigit():
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, int(watcher), 0, 0, 0)
