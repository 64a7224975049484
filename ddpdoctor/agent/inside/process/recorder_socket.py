"""A Unix socket on which this rank hands out its flight recorder, whole or in part, with stacks that the worker server lacks.

One thread of the interpreter answers all requests, so silence within a second means that somebody holds the GIL and does not
let go. The worker server needs no GIL, but answers from many threads, and the allocator keeps a dump's memory for each.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..calls.missing_gradients import missing_gradients
from ..rank_process import Rank
from ..signal_errors import job_keeps, pass_on
from .freed_memory import return_freed_memory
from .worker_server import SUN_PATH_BYTES

RECORDER = b"recorder\n"
CALLS = b"calls\n"  # without their stacks
STATUS = b"status\n"  # of each process group, without its calls: it takes 0.1 ms
ENDING = b"ending\n"  # the recorder, and into a file where the threads are: the launcher is about to end this rank
MISSING_GRADIENTS = b"gradients\n"  # the parameters that have none
_ASKED = {
    RECORDER: (True, True),
    ENDING: (True, True),
    CALLS: (True, False),
    STATUS: (False, False),
}  # collectives, stacks
THREAD = "ddpdoctor"
ACCEPT_AGAIN_SECONDS = 1.0
NO_DESCRIPTOR_FREE = (errno.EMFILE, errno.ENFILE)


def answer_requests(rank: Rank) -> None:
    """Serve `PID.ask` from a daemon thread; it sleeps in `accept` and costs nothing until it is asked."""
    path = rank.path("ask")
    if len(path.encode()) > SUN_PATH_BYTES:
        raise OSError(f"the socket path has {len(path.encode())} bytes, at most {SUN_PATH_BYTES} are possible")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen(8)
    threading.Thread(target=_serve, args=(server, rank), name=THREAD, daemon=True).start()


def _serve(server: socket.socket, rank: Rank) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError as error:
            pass_on(error)
            if error.errno not in NO_DESCRIPTOR_FREE:  # then the socket is gone
                return
            time.sleep(ACCEPT_AGAIN_SECONDS)
            continue
        collectives = False
        with job_keeps(Exception), connection:
            connection.settimeout(5)
            asked = connection.recv(64)
            if asked == ENDING:
                _keep_threads(rank)
            if asked in _ASKED:
                collectives, stacks = _ASKED[asked]
                connection.sendall(recorder_pickle(collectives=collectives, stacks=stacks))
            elif asked == MISSING_GRADIENTS:
                connection.sendall(missing_gradients())
        if collectives:  # who asked has its answer by now
            with job_keeps(Exception):
                return_freed_memory()  # 10 MB, which the allocator would keep for this thread


def _keep_threads(rank: Rank) -> None:
    """Write where all threads are now into `PID.ending`."""
    import faulthandler

    with open(rank.path("ending"), "wb") as file:
        faulthandler.dump_traceback(file)


def recorder_pickle(*, collectives: bool = True, stacks: bool = True) -> bytes:
    """The flight recorder of this process as PyTorch pickles it; without `collectives` only the status of each group."""
    from torch._C import _distributed_c10d as c10d

    dump = getattr(c10d, "_dump_fr_trace", None) or getattr(c10d, "_dump_nccl_trace")  # noqa: B009 - before torch 2.9
    with _without_inductor():
        pickled: bytes = dump(collectives, stacks, False)  # of all calls, not only of active ones
    return pickled


@contextlib.contextmanager
def _without_inductor() -> Iterator[None]:
    """Keep PyTorch from importing its compiler, a second's work, for a rank that has compiled nothing.

    To name compiled frames the dump asks for `torch._inductor`, which `torch` imports when it is asked for.
    """
    import torch

    if "torch._inductor" in sys.modules:
        yield
        return
    nothing = _NoInductor(threading.get_ident())
    torch.__dict__["_inductor"] = nothing
    try:
        yield
    finally:
        if torch.__dict__.get("_inductor") is nothing:
            del torch.__dict__["_inductor"]


class _NoInductor(ModuleType):
    """Stands for `torch._inductor`, empty to the thread that dumps; the job's own threads find the compiler behind it."""

    def __init__(self, dumps: int) -> None:
        super().__init__("torch._inductor")
        self._dumps = dumps

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if threading.get_ident() == self._dumps:
            raise AttributeError(name)
        return getattr(importlib.import_module("torch._inductor"), name)
