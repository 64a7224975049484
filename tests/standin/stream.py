"""The order in which a device would execute: a lane per communicator, and a stream that waits for what was waited for."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import Work as _Work

from .recorder import Entry

BURN_ITERATIONS = 4000  # of a hash that runs without the GIL: about 2 ms
NICE = 15  # of a thread that spins: where cores are short, those that compute go first
SYNCHRONISES = ("item", "cpu", "tolist", "__bool__", "__float__", "__int__")


def spin(done: Callable[[], bool]) -> None:
    """Use 100 % of a CPU, without the GIL, until `done`: what a stream synchronisation does."""
    if done():
        return
    thread = threading.get_native_id()
    before = os.getpriority(os.PRIO_PROCESS, thread)
    os.setpriority(os.PRIO_PROCESS, thread, max(before, NICE))
    try:
        while not done():
            hashlib.pbkdf2_hmac("sha256", b"spin", b"", BURN_ITERATIONS)
    finally:
        with contextlib.suppress(PermissionError):  # only root may raise it again
            os.setpriority(os.PRIO_PROCESS, thread, before)


class Work(_Work):  # type: ignore[misc]
    """One collective, send or receive. `blocks` where whoever waits for it spins instead of going on."""

    def __init__(self, entry: Entry, run: Callable[[], None], tensors: Sequence[Any], *, blocks: bool) -> None:
        super().__init__()
        self.entry = entry
        self.run = run
        self.tensors = tensors
        self.blocks = blocks
        self.after: tuple[Work, ...] = ()
        self.through = threading.Event()
        self._future: Any = None
        self._lock = threading.Lock()

    def wait(self, _timeout: Any = None) -> bool:
        """Have the stream wait for it; the caller only where it `blocks`."""
        if self.blocks:
            spin(self.through.is_set)
        else:
            STREAM.wait_for(self)
        return True

    def is_completed(self) -> bool:
        """Whether the device is through with it."""
        return self.through.is_set()

    def is_success(self) -> bool:
        """The same: a collective that fails never completes."""
        return self.through.is_set()

    def exception(self) -> None:
        """None: a collective that fails never completes."""

    def synchronize(self) -> None:
        """Have the stream wait for it."""
        self.wait()

    def result(self) -> Sequence[Any]:
        """The tensors."""
        return self.tensors

    def get_future(self) -> Any:
        """A future of the tensors."""
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                if self.through.is_set():
                    self._future.set_result(self.tensors)
            return self._future

    def complete(self) -> None:
        """The device is through with it."""
        self.entry.complete()
        with self._lock:
            self.through.set()
            if self._future is not None:
                self._future.set_result(self.tensors)


class Lane:
    """The works of one communicator, executed in order by a thread."""

    def __init__(self, name: str) -> None:
        self._works: queue.SimpleQueue[Work] = queue.SimpleQueue()
        threading.Thread(target=self._execute, name=name, daemon=True).start()

    def put(self, work: Work) -> None:
        """Enqueue it behind what the stream waits for now."""
        work.after = STREAM.waited()
        self._works.put(work)

    def _execute(self) -> None:
        while True:
            work = self._works.get()
            for before in work.after:
                before.through.wait()
            work.after = ()
            work.entry.start()
            try:
                work.run()
            except Exception:  # noqa: BLE001 - a device does not raise: the collective never completes
                work.entry.stuck = True
                return
            work.complete()
            del work


class Stream:
    """The current stream of this rank: what it waits for before it executes what is enqueued next."""

    def __init__(self) -> None:
        self._works: list[Work] = []
        self._pid = os.getpid()

    def wait_for(self, work: Work) -> None:
        """Let what is enqueued from now on wait for `work`."""
        self._works.append(work)

    def waited(self) -> tuple[Work, ...]:
        """What it waits for and is not through yet."""
        self._works = [work for work in self._works if not work.through.is_set()]
        return tuple(self._works)

    def synchronize(self) -> None:
        """Spin until the device is through with everything that the stream waits for."""
        if os.getpid() == self._pid:
            spin(lambda: not self.waited())


STREAM = Stream()


def synchronising() -> None:
    """Make the points at which a GPU job waits for its device wait here too."""
    for name in SYNCHRONISES:
        setattr(torch.Tensor, name, _after_the_device(getattr(torch.Tensor, name)))
    torch.cuda.synchronize = _synchronize  # type: ignore[assignment]


def _after_the_device(method: Callable[..., Any]) -> Callable[..., Any]:
    def synchronised(*args: Any, **kwargs: Any) -> Any:
        STREAM.synchronize()
        return method(*args, **kwargs)

    return synchronised


def _synchronize(_device: Any = None) -> None:
    STREAM.synchronize()
