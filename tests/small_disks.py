"""File systems that are soon full."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(*, kilobytes: int) -> Iterator[Path]:
    """A file system of that size; its path is short enough for sockets. The test is skipped where nobody may mount."""
    disk = Path(tempfile.mkdtemp(prefix="small-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        disk.rmdir()
        pytest.skip(f"a small file system needs root: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
        disk.rmdir()
