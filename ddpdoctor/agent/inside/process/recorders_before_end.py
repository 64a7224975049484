"""A launcher keeps the flight recorders of its other ranks before it ends them because one of them has failed.

A rank that SIGTERM ends in the middle of a collective can keep nothing itself, and with it goes what says which call it was in.
Nor can one that never came to it: each also writes down where its threads are.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

from ..post_import_hook import after_import
from ..rank_process import Rank
from ..signal_errors import job_keeps

ANSWER_SECONDS = 1.0  # for all ranks together: a thread that can run answers within milliseconds
MOST_BYTES = 256 << 20
_asked: set[tuple[str, str]] = set()  # each rank is asked once: a launcher ends them one by one, and some twice


def keep_recorders(rank: Rank) -> None:
    """Install this for torchrun and for `torch.multiprocessing.spawn`."""
    after_import(
        "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler",
        lambda module: keeps_before(rank, module.SubprocessHandler, "close", lambda handler: handler.proc.pid),
        rank,
    )
    after_import(
        "multiprocessing.popen_fork",
        lambda module: keeps_before(rank, module.Popen, "_send_signal", lambda process: process.pid),
        rank,
    )


def keeps_before(rank: Rank, owner: Any, name: str, pid_of: Callable[[Any], int]) -> None:  # noqa: ANN401 - a class that ends processes
    """Have the method `name` of `owner`, which ends the process `pid_of(self)`, keep the recorders first where that is a rank."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def ends(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with rank.giving_up("keeping the flight recorders of ranks that are about to be ended"):
            if os.access(os.path.join(rank.directory, f"{pid_of(self)}.ask"), os.F_OK):
                keep_all(rank.directory)
        return original(self, *args, **kwargs)

    setattr(owner, name, ends)


def keep_all(directory: str) -> None:
    """Of every rank that has not kept its own yet: once the first is ended, the others lose a peer."""
    import threading  # now, as `socket` below: most processes of a job end no rank

    sockets = [name for name in os.listdir(directory) if name.endswith(".ask")]
    pids = [name[: -len(".ask")] for name in sockets]
    kept = {pid for pid in pids if os.access(os.path.join(directory, f"{pid}.recorder"), os.F_OK)}
    asked = [pid for pid in pids if pid not in kept and (directory, pid) not in _asked]
    _asked.update((directory, pid) for pid in asked)
    threads = [threading.Thread(target=_keep, args=(directory, pid), daemon=True) for pid in asked]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _keep(directory: str, pid: str) -> None:
    path = os.path.join(directory, f"{pid}.recorder")
    with job_keeps(OSError):
        answer = _answer_of(os.path.join(directory, f"{pid}.ask"))
        if answer:
            with open(f"{path}.asked", "wb") as file:
                file.write(answer)
            with job_keeps(FileExistsError):  # the rank has kept it itself in the meantime
                os.link(f"{path}.asked", path)
            os.unlink(f"{path}.asked")


def _answer_of(path: str) -> bytes:
    """What the rank hands out; empty where it is no whole answer."""
    import socket

    from .recorder_socket import ENDING

    parts: list[bytes] = []
    size = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(path)
        connection.sendall(ENDING)
        while part := connection.recv(1 << 20):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                return b""
    return b"".join(parts)
