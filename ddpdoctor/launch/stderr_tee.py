r"""Stands between an observed job and our death: passes its stderr on, keeps the tail, and ends the job if it must.

A program of its own, standard library only: `python -I -S stderr_tee.py TAIL_FILE CONTROL [JOB_MARK]`. Its standard input
is the job's stderr; CONTROL is the number of a pipe from ddpdoctor, on which it gets `PID\n` of the job and, at the end,
`done\n`.
When that pipe closes without `done` (ddpdoctor was killed) and a mark was given (`--kill-on-hang`), it ends the job;
without a mark the job goes on, and its stderr still arrives.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ddpdoctor.launch.process_tree import end

CHUNK = 1 << 16
KEPT_BYTES = 1 << 20  # of the tail: two files of this size at most
GRACE_SECONDS = 3.0


def main(arguments: list[str]) -> int:
    """Pass bytes on until the job's last process has closed its stderr."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the job; we end when it does
    tail, control, mark = _Tail(Path(arguments[0])), int(arguments[1]), "".join(arguments[2:])
    received = b""
    waiting = [0, control]
    while 0 in waiting:
        for descriptor in select.select(waiting, [], [])[0]:
            data = _read(descriptor)
            if descriptor == 0:
                if not data or not _write(data):
                    waiting.remove(0)
                tail.keep(data)
            elif data:
                received += data
            else:
                waiting.remove(control)
                if mark and not received.endswith(b"done\n"):
                    pid = received.split(b"\n")[0]
                    end(int(pid) if pid.isdigit() else 0, mark, grace_seconds=GRACE_SECONDS)
    return 0


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError as error:
        if error.errno == errno.EIO:  # a pseudo terminal whose last writer has gone
            return b""
        raise


def _write(data: bytes) -> bool:
    """Whether our own stderr still takes bytes; where it does not, the job must find its own closed too."""
    try:
        while data:
            data = data[os.write(2, data) :]
    except OSError:
        return False
    return True


class _Tail:
    """The last megabytes of what passed, in `path` and `path.old`; a full disk costs the tail and nothing else."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def keep(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._size > KEPT_BYTES:
                self._path.replace(self._path.with_suffix(".old"))
                self._size = 0
            with self._path.open("ab") as file:
                self._size += file.write(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
