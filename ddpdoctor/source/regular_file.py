"""Reads files that people name: a device or a FIFO in their place neither blocks nor fills the memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: there is no such file, it may not be read, or it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()
