"""Reads files that people name: a device or a FIFO in their place neither blocks nor fills the memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

PIECE_BYTES = 1 << 20  # the kernel makes a buffer of the size that is asked for, of its settings up to 4 MiB
MOST_FILE_BYTES = 64 << 20
"""Of a file of source code or a notebook, unless a reader knows better."""
MOST_SETTINGS_BYTES = 16 << 20
"""Of a file that people write or keep under version control: a project file, a baseline, a saved benchmark."""


def read_regular(path: Path, *, most: int = MOST_FILE_BYTES) -> bytes:
    """The content of a regular file of at most `most` bytes. A sparse file of a terabyte takes no room on a disk.

    Raises:
        OSError: there is no such file, it may not be read, it is no regular file, or it is larger.
    """
    with open_regular(path) as file:
        parts, left = [], most + 1
        while left and (part := file.read(min(PIECE_BYTES, left))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return b"".join(parts)


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading; nobody waits for what is none.

    Raises:
        OSError: there is no such file, it may not be read, or it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")
