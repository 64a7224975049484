"""Makes and pickles the objects of a frozen dataclass in half of the time: for classes of which a run has many thousands."""

from __future__ import annotations

from dataclasses import MISSING, fields
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T", bound=type)


def in_large_numbers(cls: T) -> T:
    """The class of a frozen dataclass with slots, whose objects are made and pickled by plain assignments.

    The type checker alone holds such objects frozen: while a class guards its attributes, each field is written through
    `object.__setattr__`, by its name, and Python cannot remember where its slot is.
    """
    names = [each.name for each in fields(cls)]
    for guard in ("__setattr__", "__delattr__"):
        delattr(cls, guard)
    for method in (_init(cls), *_pickled(names)):
        method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
        setattr(cls, method.__name__, method)
    return cls


def _init(cls: type) -> FunctionType:
    """The same `__init__` as before, written as in a class that is not frozen."""
    known: dict[str, Any] = {}
    parameters = ["self", "*"] if fields(cls)[0].kw_only else ["self"]
    for number, each in enumerate(fields(cls)):
        known[f"default{number}"] = each.default
        parameters.append(each.name if each.default is MISSING else f"{each.name}=default{number}")
    written = "".join(f"    self.{each.name} = {each.name}\n" for each in fields(cls))
    return _made(f"def __init__({', '.join(parameters)}):\n{written}", "__init__", known)


def _pickled(names: list[str]) -> tuple[FunctionType, FunctionType]:
    """What pickle keeps of an object, its values alone, and how it gives them back."""
    values = "".join(f"self.{name}, " for name in names)
    return (
        _made(f"def __getstate__(self):\n    return ({values})\n", "__getstate__", {}),
        _made(f"def __setstate__(self, values):\n    ({values}) = values\n", "__setstate__", {}),
    )


def _made(written: str, name: str, known: dict[str, Any]) -> FunctionType:
    exec(written, known)  # noqa: S102 - of the names of our own fields
    made: FunctionType = known[name]
    return made
