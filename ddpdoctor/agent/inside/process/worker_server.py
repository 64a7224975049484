"""PyTorch's own worker server, on a Unix socket: its C++ handlers answer while the main thread sits in a collective."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
from collections.abc import Iterator

from ..rank_process import Rank
from ..signal_errors import job_keeps

SUN_PATH_BYTES = 107  # sockaddr_un holds 108 with the final NUL
CHATTER = b"Server listening to UNIX"


def start_worker_server(rank: Rank) -> None:
    """Serve the flight recorder and tracebacks on `PID.sock`, for as long as the process lives."""
    path = rank.path("sock")
    if len(os.fsencode(path)) > SUN_PATH_BYTES:
        raise OSError(f"the socket path has {len(os.fsencode(path))} bytes, at most {SUN_PATH_BYTES} are possible")
    try:
        from torch._C._distributed_c10d import _WorkerServer
    except ImportError:
        rank.give_up(
            "the worker server", "this torch has no worker server (2.4 and later have one), so stacks need py-spy"
        )
        return
    with _stderr_without(CHATTER):
        server = _WorkerServer(path, -1)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))  # never destroyed: its destructor writes to the job's stderr
    atexit.register(_put_out_of_reach, rank, path)


def _put_out_of_reach(rank: Rank, path: str) -> None:
    """Let nobody ask any more: a question that is read while the process takes itself down ends it with SIGSEGV."""
    if rank.is_here:
        with job_keeps(OSError):
            os.unlink(path)


@contextlib.contextmanager
def _stderr_without(chatter: bytes) -> Iterator[None]:
    """Leave out the lines with `chatter` that C++ code writes to file descriptor 2; all else gets through, a little late."""
    kept = os.dup(2)
    memory = os.memfd_create("ddpdoctor")
    try:
        os.dup2(memory, 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
        os.lseek(memory, 0, os.SEEK_SET)
        with os.fdopen(os.dup(memory), "rb") as lines:
            for line in lines:
                if chatter not in line:
                    os.write(2, line)
    finally:
        os.close(memory)
        os.close(kept)
