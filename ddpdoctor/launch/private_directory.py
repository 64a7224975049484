"""A directory of our own that is gone after us, however we end.

If we are killed, a process that waits for our end removes it. If that process is killed as well, the user's next command on
the same host removes the directory: each process that uses it holds a lock. Other hosts do not see these locks on some shared
file systems (NFS, Lustre), so the name of the directory tells the kernel that it belongs to.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.launch.boot_id import boot_id

SOCKET_PATH_LENGTH = 51  # of a directory: a socket in it has a name, and Linux takes 108 bytes for both
NAME_BYTES = 7
NAMES_TRIED = 16  # a name has 56 random bits: one that is taken was made by somebody who watches us
KERNEL_BYTES = 4
LOCKED_SECONDS = (
    60.0  # what passes at most between the two system calls that make a directory and lock it, on a busy host
)
MOST_NAMES = 10_000  # of a shared directory, looked at for what was left behind: 10 ms
PAUSES = (0.02, 0.1, 0.3)  # seconds after a removal that left something
LEAVE_SECONDS = 2.0  # for the remover to end; it has nothing to do

# Any line says that the directory was removed. The end of its input without one says that all who held the pipe are gone.
REMOVER = 'trap \'\' HUP INT TERM QUIT; read -r _ || rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }'


@dataclass(frozen=True, slots=True)
class PrivateDirectory:
    """A directory of mode 0700, and what keeps it."""

    path: Path
    """Where it is."""
    keepers: tuple[int, ...]
    """Descriptors: where we are killed, the directory stays as long as another process has inherited them."""


@contextlib.contextmanager
def private_directory(*, for_sockets: bool = False) -> Iterator[PrivateDirectory]:
    """A directory that exists as long as the context; `for_sockets` chooses a short path.

    Where we are killed, a process that waits for that (a shell, as nothing else starts as fast) removes it. It is started
    first, so that there is no moment at which the directory has nobody who removes it.

    Raises:
        DdpdoctorError: no directory can be made.
    """
    place = _place(for_sockets=for_sockets)
    _remove_left_behind(place)
    for _ in range(NAMES_TRIED):
        with _made(place / f"{_prefix()}{secrets.token_hex(NAME_BYTES)}") as made:
            if made is not None:
                yield made
                return
    raise _cannot(place, f"{NAMES_TRIED} random names were taken")


@contextlib.contextmanager
def _made(path: Path) -> Iterator[PrivateDirectory | None]:
    """The directory `path`, which is ours from now on; None where somebody has made it before."""
    try:
        theirs, ours = os.pipe()
    except OSError as error:
        raise _cannot(path.parent, error.strerror) from None
    remover = _remover(path, theirs)
    os.close(theirs)
    is_ours, lock = True, None
    try:
        try:
            path.mkdir(mode=0o700)
            lock = _locked(path)
        except FileExistsError:
            is_ours = False
        except OSError as error:
            raise _cannot(path.parent, error.strerror) from None
        yield PrivateDirectory(path=path, keepers=(ours, lock)) if lock is not None else None
    finally:
        removed = not is_ours or _is_removed(path)
        if lock is not None:
            os.close(lock)
        if remover is not None and removed:
            _dismiss(remover, ours)
        os.close(ours)
        if remover is not None and not removed:  # it removes the rest, once nobody else holds the pipe
            with contextlib.suppress(subprocess.TimeoutExpired):
                remover.wait(timeout=LEAVE_SECONDS)


def _locked(path: Path) -> int:
    """A descriptor of the directory with a lock that shows to others that it is in use, where the file system has locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def _remove_left_behind(place: Path) -> None:
    """Remove the directories of this user there whose processes were all killed.

    Only those of this kernel: the locks of other hosts may be invisible here. And only where nobody else can rename a directory
    of ours: another one could be given the name of such a directory.
    """
    if boot_id() is None:
        return
    left_behind = re.compile(f"{_prefix()}[0-9a-f]{{{2 * NAME_BYTES}}}")
    with contextlib.suppress(OSError):
        found = place.stat()
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in {0, os.geteuid()} or others_write:
            return
        with os.scandir(place) as names:
            left = [one.path for one in itertools.islice(names, MOST_NAMES) if left_behind.fullmatch(one.name)]
        for path in left:
            with contextlib.suppress(OSError):
                _remove_unused(path)


def _prefix() -> str:
    """How the names of this kernel's directories begin."""
    kernel = boot_id()
    return (
        "ddpdoctor-"
        if kernel is None
        else f"ddpdoctor-{hashlib.sha256(kernel.encode()).hexdigest()[: 2 * KERNEL_BYTES]}-"
    )


def _remove_unused(path: str) -> None:
    """Remove a directory that is ours and that nobody holds.

    Raises:
        OSError: somebody holds it, or it is no directory, or it is gone.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        ours = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == stat.S_IRWXU
        if ours and time.time() - found.st_ctime > LOCKED_SECONDS:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _is_removed(path: Path) -> bool:
    """Remove the directory, and whether that was done: a process that is about to end may write into it at this moment."""
    for pause in PAUSES:
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return True
        time.sleep(pause)
    return False


def _place(*, for_sockets: bool) -> Path:
    if for_sockets:
        for place in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108 - the name is random
            if place and len(place) < SOCKET_PATH_LENGTH and os.access(place, os.W_OK | os.X_OK) and _is_safe(place):
                return Path(place).absolute()
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        raise _cannot(Path(os.environ.get("TMPDIR", "/tmp")), "no directory can be written") from None  # noqa: S108 - named only


def _is_safe(place: str) -> bool:
    """Whether nobody else can put another directory in the place of ours: root may be given that of another user."""
    found = Path(place).stat()
    return found.st_uid == os.geteuid() or (found.st_uid == 0 and bool(found.st_mode & stat.S_ISVTX))


def _remover(path: Path, pipe: int) -> subprocess.Popen[bytes] | None:
    """Start it; None where there is no shell, and the directory is only removed by us."""
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", REMOVER, str(path)],
            stdin=pipe,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return None


def _dismiss(remover: subprocess.Popen[bytes], pipe: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # somebody killed it
        os.write(pipe, b"removed\n")
        remover.send_signal(signal.SIGCONT)  # somebody may have stopped it
    with contextlib.suppress(subprocess.TimeoutExpired):
        remover.wait(timeout=LEAVE_SECONDS)


def _cannot(place: Path, why: str | None) -> DdpdoctorError:
    return DdpdoctorError(
        f"cannot make a temporary directory in {place}: {why}", hint="set TMPDIR to a writable directory with space"
    )
