"""Which thread of a rank trains, and whether a call is made beside the training."""

from __future__ import annotations

import threading
from threading import get_ident, get_native_id


class TrainingThread:
    """The thread that trains: that of the last training forward or optimizer step, the main one before there was any."""

    def __init__(self) -> None:
        self._ident = threading.main_thread().ident
        self.os_id = 0
        """The kernel's number of the thread; 0 before anything was trained."""
        self._trained: set[int | None] = {self._ident}

    def is_here(self) -> bool:
        """Whether it is this one."""
        return self._ident == get_ident()

    def trains(self) -> None:
        """Note that this thread trains."""
        here = get_ident()
        if not self.os_id or self._ident != here:
            if not self.os_id:
                self._trained.clear()  # the main thread counts only as long as nobody knows a better one
            self._ident, self.os_id = here, get_native_id()
            self._trained.add(here)

    def is_beside(self) -> bool:
        """Whether this is another thread that the program started, as one is that reports or saves.

        Python has not started the threads of autograd, which run DDP's hooks: they belong to the training.
        """
        here = get_ident()
        if here in self._trained:
            return False
        # `current_thread()` would note each of autograd's as one of Python's
        thread = threading._active.get(here)  # type: ignore[attr-defined]  # noqa: SLF001
        return thread is not None and not isinstance(thread, threading._DummyThread)  # noqa: SLF001
