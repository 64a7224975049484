"""Asynchronous collectives of the user's code whose handle is thrown away before anybody has waited for it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from .journal import Journal, is_users, user_line

WAITS = ("wait", "synchronize", "get_future", "get_future_result", "result", "exception")


class Unwaited:
    """Follows handles from the call that returns them to their end. `step` tells how many steps the rank has made."""

    def __init__(self, journal: Journal, step: Callable[[], int]) -> None:
        self._journal, self._step = journal, step
        self._pending: dict[int, tuple[weakref.ref[Any], list[Any]]] = {}
        self._told: set[Any] = set()
        self._dropped = journal.observing(self._drop)

    def install(self, work: Any) -> None:  # noqa: ANN401 - the class of handles
        """See every way of waiting for a handle."""
        waited = self._journal.observing(self._waited)
        for name in WAITS:
            if hasattr(work, name):
                setattr(work, name, _first(waited, getattr(work, name)))
        completed: Any = work.is_completed

        def is_completed(handle: Any) -> Any:  # noqa: ANN401
            done = completed(handle)
            if done:
                waited(handle)
            return done

        work.is_completed = is_completed

    def began(self, name: str, handle: Any, caller: str) -> None:  # noqa: ANN401
        """A collective called in the file `caller` has returned `handle`, which is None where it was not asynchronous."""
        if handle is None or not hasattr(handle, "wait") or not is_users(caller):
            return
        note = [name, user_line(), self._step()]
        number = id(handle)
        self._pending[number] = weakref.ref(handle, lambda _: self._dropped(number, note)), note

    def _waited(self, handle: Any) -> None:  # noqa: ANN401
        self._pending.pop(id(handle), None)

    def _drop(self, number: int, note: list[Any]) -> None:
        if number not in self._pending or self._pending[number][1] is not note:
            return
        del self._pending[number]
        name, line, step = note
        if (name, line) not in self._told:
            self._told.add((name, line))
            self._journal.write("unwaited", op=name, line=line, step=step)


def _first(observer: Callable[[Any], None], function: Any) -> Any:  # noqa: ANN401
    @functools.wraps(function)
    def wrapped(handle: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        observer(handle)
        return function(handle, *args, **kwargs)

    return wrapped
