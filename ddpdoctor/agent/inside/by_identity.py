"""Values for objects of the program's own, which may have no hash, and whose methods may raise."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Holds a value for each object as long as the object lives, and calls none of its methods."""

    def __init__(self) -> None:
        self._values: dict[int, T] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def put(self, one: object, value: T) -> None:
        """Hold `value` for `one`; of an object whose end nobody would notice nothing is held."""
        address = id(one)
        with contextlib.suppress(TypeError):  # a list, a class with slots
            if address not in self._alive:
                self._alive[address] = weakref.ref(one, functools.partial(self._forget, address))
            self._values[address] = value

    def get(self, one: object) -> T | None:
        """What is held for `one`."""
        return self._values.get(id(one))

    def _forget(self, address: int, _freed: object) -> None:
        self._alive.pop(address, None)
        self._values.pop(address, None)
