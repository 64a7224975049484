"""Makes and pickles the objects of a frozen dataclass in half of the time: for classes of which a run has many thousands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def in_large_numbers(cls: T) -> T:
    """The class of a frozen dataclass with slots, made and pickled slot by slot.

    What `dataclass` writes into a frozen class looks each slot up by its name, once for every object and field.
    """
    read: list[Callable[[Any], Any]] = [getattr(cls, each.name).__get__ for each in fields(cls)]
    write: list[Callable[[Any, Any], None]] = [getattr(cls, each.name).__set__ for each in fields(cls)]

    def state(self: object) -> tuple[Any, ...]:
        return tuple([get(self) for get in read])

    def set_state(self: object, values: tuple[Any, ...]) -> None:
        for put, value in zip(write, values, strict=True):
            put(self, value)

    for name, method in (("__getstate__", state), ("__setstate__", set_state), ("__init__", _init(cls, write))):
        setattr(cls, name, method)
    return cls


def _init(cls: type, write: list[Callable[[Any, Any], None]]) -> Callable[..., None]:
    """The same `__init__` as before, written as `dataclass` writes it, but with `put0(self, kind)` for each field."""
    known: dict[str, Any] = {}
    parameters = ["self", "*"] if fields(cls)[0].kw_only else ["self"]
    lines: list[str] = []
    for number, (each, put) in enumerate(zip(fields(cls), write, strict=True)):
        known |= {f"put{number}": put, f"default{number}": each.default}
        parameters.append(each.name if each.default is MISSING else f"{each.name}=default{number}")
        lines.append(f"    put{number}(self, {each.name})\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines)}", known)  # noqa: S102 - of the names of our own fields
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
