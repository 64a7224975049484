"""Values for objects of the program's own, which may have no hash, and whose methods may raise."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Generic, TypeVar

from .signal_errors import pass_on

T = TypeVar("T")


class ByIdentity(Generic[T]):
    """Holds a value for each object as long as the object lives, and calls none of its methods.

    The next object may take a freed one's place in memory, on one rank and not on another, so an address alone is no key.
    `by_address` holds values for objects whose end nobody would notice as well, as of a list: there the address has to do.
    """

    def __init__(self, *, by_address: bool = False) -> None:
        self._by_address = by_address
        self._held: dict[int, tuple[T, weakref.ref[Any] | None]] = {}

    def put(self, one: object, value: T) -> None:
        """Hold `value` for `one`."""
        address = id(one)
        held = self._held.get(address)
        alive = held[1] if held is not None else None
        if alive is None:
            try:
                alive = weakref.ref(one, functools.partial(self._held.pop, address))
            except TypeError as error:  # a list, a class with slots
                pass_on(error)
                if not self._by_address:
                    return
        self._held[address] = value, alive

    def get(self, one: object) -> T | None:
        """What is held for `one`."""
        held = self._held.get(id(one))
        return held[0] if held is not None else None

    def __len__(self) -> int:
        """How many values are held."""
        return len(self._held)
