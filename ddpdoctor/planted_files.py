"""What another user may have put in the place of a file that we write: a link, a pipe, a file with permissions of their choice.

In a directory that all may write to, such as /tmp, whoever knows a name can be there first. The kernel refuses to follow such
links only where `fs.protected_symlinks` is set, and never for a program that resolves them itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

MOST_LINKS = 40  # in one path, as in the kernel
ALL_USERS = ["0", "0", str(2**32 - 1)]  # of /proc/self/uid_map outside of any user namespace: `man 7 user_namespaces`
DEFAULT_OVERFLOW_USER = 65534
MOST_DIGITS = 10  # of a user's number, which has 32 bits
PROCESSES = Path("/proc")
PERMISSIONS = 0o777  # not those that let others act as the owner


def led_to(path: Path) -> Path:
    """Where `path` leads, without links: those of other users are not followed where they may have been planted.

    Root follows links of root, and of the user who called `sudo`. Others follow the links of anybody, except in a directory that
    all may write to: there, those of root, of the directory's owner and of their own. The root of a user namespace has no
    more rights than its user, and counts as one of the others.

    Raises:
        OSError: there is such a link, or too many links; the text names it.
    """
    waiting = [*reversed(path.absolute().parts)]
    here = Path(waiting.pop())
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = here.parent
            continue
        here /= part
        if here == PROCESSES:  # links there are the kernel's, and some lead to what has no name, such as a pipe
            named = here.joinpath(*reversed(waiting))
            return resolved if (resolved := Path(os.path.realpath(named))).is_file() else named
        try:
            target = here.readlink()
        except OSError:  # no link, or nothing there yet
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        _check_link(here)
        waiting += reversed(target.parts)
        here = Path(waiting.pop()) if target.is_absolute() else here.parent
    return here


def check_pipe(path: Path) -> None:
    """See that a named pipe at `path` is ours or root's: another user may never read what we write into it.

    Raises:
        OSError: it belongs to another user.
    """
    found = path.stat()
    if stat.S_ISFIFO(found.st_mode) and found.st_uid not in _trusted() and PROCESSES not in path.parents:
        raise OSError(errno.EACCES, f"it is a named pipe of user {found.st_uid}", str(path))


def permissions_of(path: Path) -> int | None:
    """The permissions of a file of ours at `path`; None where there is none, or where another user chose them."""
    try:
        found = path.stat()
    except OSError:
        return None
    ours = {os.geteuid(), _caller_of_sudo()}
    return stat.S_IMODE(found.st_mode) & PERMISSIONS if found.st_uid in ours else None


def copy_owner(path: Path, descriptor: int) -> None:
    """Give an open file the permissions of the file at `path`, and its owner where we may."""
    found = path.stat()
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & PERMISSIONS)


def _check_link(link: Path) -> None:
    owner, folder = link.lstat().st_uid, link.parent.stat()
    if owner in _trusted():
        return
    shared = bool(folder.st_mode & stat.S_IWOTH) and owner != folder.st_uid
    if shared or (os.geteuid() == 0 and not _in_user_namespace()):
        target = os.path.realpath(link)
        hint = f"; if it leads to the right place, give that: {target}" if Path(target).exists() else ""
        raise OSError(errno.EACCES, f"{link} is a link of user {owner}, which is not followed{hint}", str(link))


def _trusted() -> set[int | None]:
    """Whose links and pipes are as good as ours: root's, and those of whoever became root by sudo and typed the path."""
    outside = _overflow_user() if _in_user_namespace() else None  # as which the root outside is shown
    return {0, os.geteuid(), _caller_of_sudo(), outside}


def _caller_of_sudo() -> int | None:
    """The user who became root by sudo, or None."""
    user = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return int(user) if user.isascii() and user.isdigit() and len(user) <= MOST_DIGITS else None


def _in_user_namespace() -> bool:
    """Whether this process sees other users' numbers than the kernel: its root has no rights over files of the host's users."""
    with contextlib.suppress(OSError):
        return (PROCESSES / "self/uid_map").read_text().split() != ALL_USERS
    return False


def _overflow_user() -> int:
    """The number as which the users outside of a user namespace are shown inside of it."""
    with contextlib.suppress(OSError, ValueError):
        return int((PROCESSES / "sys/kernel/overflowuid").read_text())
    return DEFAULT_OVERFLOW_USER
