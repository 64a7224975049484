"""A file that a reader sees whole or not at all, wherever a person said that it goes."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.planted_files import check_pipe, copy_owner, led_to, permissions_of


def write_atomically(path: Path, content: str | bytes, *, private: bool = False, keeps: bool = False) -> None:
    """Write `content` to `path` so that a reader sees all of it or nothing; directories are made.

    A `private` file that is new is for its owner alone. With `keeps`, a file that is there keeps its owner and permissions
    whoever chose them, as far as we may set them; else only permissions that we have chosen. A link stays a link, and what is
    no file (`/dev/null`, a named pipe) is written to and not replaced. What another user may have planted is neither followed
    nor written into (`planted_files.py`).

    Raises:
        DdpdoctorError: the place is read-only, full or not a directory; no half-written file and no new directory stays behind.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    made: list[Path] = []  # the innermost directory first
    try:
        target = led_to(path)
        if target.exists() and not target.is_file():
            check_pipe(target)
            target.write_bytes(data)
            return
        made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as file:
            if keeps and target.exists():  # by descriptor: under the name there could be another file by now
                copy_owner(target, descriptor)
            else:
                os.fchmod(descriptor, _mode(target, private=private))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        with contextlib.suppress(OSError):  # somebody may have put something there since
            for folder in made:
                folder.rmdir()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space there, or give another path" if full else "give a path in a writable directory"
        raise DdpdoctorError(f"cannot write {path}: {error.strerror}", hint=hint) from None


def _mode(path: Path, *, private: bool) -> int:
    """The permissions of the file of ours that is there, which we may have chosen, or those of a new one."""
    chosen = permissions_of(path)
    return chosen if chosen is not None else 0o600 if private else 0o666 & ~_umask()


def _umask() -> int:
    """The permissions that the user withholds from new files; they can be asked for only by setting them."""
    withheld = os.umask(0o077)
    os.umask(withheld)
    return withheld
