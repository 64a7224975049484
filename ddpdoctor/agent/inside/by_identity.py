"""Values for objects of the program's own, which may have no hash, and whose methods may raise."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Holds a value for each object as long as the object lives, and calls none of its methods.

    The next object may take a freed one's place in memory, on one rank and not on another, so an address alone is no key.
    `by_address` holds values for objects whose end nobody would notice as well, as of a list: there the address has to do.
    """

    def __init__(self, *, by_address: bool = False) -> None:
        self._by_address = by_address
        self._values: dict[int, T] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}

    def put(self, one: object, value: T) -> None:
        """Hold `value` for `one`."""
        address = id(one)
        if address not in self._alive:
            try:
                self._alive[address] = weakref.ref(one, functools.partial(self._forget, address))
            except TypeError:  # a list, a class with slots
                if not self._by_address:
                    return
        self._values[address] = value

    def get(self, one: object) -> T | None:
        """What is held for `one`."""
        return self._values.get(id(one))

    def __len__(self) -> int:
        """How many values are held."""
        return len(self._values)

    def _forget(self, address: int, _freed: object) -> None:
        self._alive.pop(address, None)
        self._values.pop(address, None)
