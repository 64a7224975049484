"""Files and sockets that a process of another user points to: read without believing, waiting for or following anybody else.

Root looks at everybody's jobs. What stands where a job's variables point may have been put there by a third user: a dump that
accuses the wrong rank, a named pipe on which a reader waits for ever, a link to a file that only root may read.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from pathlib import Path

MOST_BYTES = 1 << 30
MAX_SOURCE_BYTES = 4 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_PEER = struct.Struct("3i")  # struct ucred: process, user, group


def user_of(pid: int) -> int | None:
    """The effective user of a process; None where there is no such process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    users = next((line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")), [])
    return int(users[1]) if len(users) > 1 else None


def read_owned(path: Path, owner: int | None, *, most: int = MOST_BYTES) -> bytes:
    """At most `most` bytes of the regular file at `path`, which is no link and belongs to the user `owner` (None: to anybody).

    Raises:
        OSError: there is no such file, it may not be read, or it is of another kind or user.
    """
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        _check_file(descriptor, owner, path)
        return file.read(most)


def read_beginning(path: str, owner: int | None, *, most: int) -> tuple[bytes, float]:
    """The first bytes of such a file, and when it was changed last, by four system calls: `watch` reads them five times a second.

    Raises:
        OSError: as `read_owned`.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        changed_at = _check_file(descriptor, owner, path).st_ctime
        return os.read(descriptor, most), changed_at
    finally:
        os.close(descriptor)


def _check_file(descriptor: int, owner: int | None, path: Path | str) -> os.stat_result:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    check_owner(found.st_uid, owner, path)
    return found


def read_source(path: Path, owner: int | None) -> bytes | None:
    """A file of source code that `owner` could read too; None where it is very large or no regular file.

    Raises:
        OSError: there is no such file, or it may not be read by us or by `owner`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SOURCE_BYTES:
            return None
        if not found.st_mode & stat.S_IROTH:
            check_owner(found.st_uid, owner, path)
        return file.read(MAX_SOURCE_BYTES)


def other_user(pid: int) -> int | None:
    """The user of a process, where that is not the one that we are."""
    user = user_of(pid)
    return None if user == os.geteuid() else user


def check_listener(connection: socket.socket, owner: int | None, path: Path) -> None:
    """See that who listens on a Unix socket is a process of the user `owner`.

    Raises:
        OSError: it is another user's.
    """
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    check_owner(user, owner, path)


def check_owner(user: int, owner: int | None, path: Path | str) -> None:
    """See that what belongs to `user` belongs to `owner` (None: to anybody).

    Raises:
        OSError: it is another user's.
    """
    if owner is not None and user != owner:
        raise OSError(errno.EACCES, f"belongs to user {user}, and the process to user {owner}", str(path))
