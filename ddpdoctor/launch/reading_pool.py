"""Processes that read files for us, and that neither outlive us nor hold us up when we are asked to end."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import TypeVar

from typing_extensions import ParamSpec, Self

P = ParamSpec("P")
T = TypeVar("T")

PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ReadingPool:
    """A context with `processes` forks of this one. Where it is left by an exception, as by Ctrl-C, they are killed."""

    def __init__(self, processes: int) -> None:
        self._before = {child.pid for child in multiprocessing.active_children()}
        self._pool = ProcessPoolExecutor(
            processes, mp_context=multiprocessing.get_context("fork"), initializer=_begin, initargs=(os.getpid(),)
        )

    def submit(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have it called in one of the processes.

        Raises:
            concurrent.futures.process.BrokenProcessPool: one of them was killed.
            OSError: none can be started.
        """
        with _signals_held_back():  # a fork answers none before it has put our handlers away
            return self._pool.submit(read, *args, **kwargs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            for child in multiprocessing.active_children():
                if child.pid not in self._before:
                    child.kill()
        self._pool.shutdown(cancel_futures=kind is not None)


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """End with the parent and by signals, and without garbage collection: a search of what the parent holds frees nothing.

    A signal that the parent ignores, as below `nohup`, is ignored here too.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    gc.disable()
    gc.freeze()
