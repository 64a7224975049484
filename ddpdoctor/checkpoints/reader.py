"""What every format gives: a tree of tensors and plain values, flattened into leaves with a path."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

from torch import Tensor

MOST_LEAVES = 2_000_000  # a checkpoint of 100,000 tensors with Adam state has 400,000
DEEPEST = 100

Path_: TypeAlias = tuple[str, ...]
_PLAIN = (int, float, str, bool, complex, bytes, type(None))


class UnreadableError(Exception):
    """Why a checkpoint cannot be read, as the end of a sentence that begins with its name."""


class Stored(Protocol):
    """One checkpoint. `ordered` is whether its names stand in the order of the model."""

    ordered: bool

    def leaves(self) -> Iterator[tuple[Path_, Tensor | str]]:
        """Every tensor, and every plain value as text, one at a time.

        Raises:
            UnreadableError: it is broken, or asks for more than data.
        """

    def tensor(self, path: Path_) -> Tensor:
        """The tensor at `path`, one that `leaves` gave."""


def flattened(tree: object) -> Iterator[tuple[Path_, Tensor | str]]:
    """The leaves of nested mappings and sequences; a sequence of plain values is one leaf.

    Raises:
        UnreadableError: the tree contains itself, or is larger than any checkpoint.
    """
    count = 0
    stack: list[tuple[Path_, object]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        count += 1
        if count > MOST_LEAVES or len(path) > DEEPEST:
            raise UnreadableError(f"holds more than {MOST_LEAVES:,} entries, or is nested without end")
        if isinstance(value, Namespace):
            value = vars(value)
        if isinstance(value, Tensor):
            yield path, value
        elif isinstance(value, Mapping):
            stack += reversed([((*path, str(key)), inner) for key, inner in value.items()])
        elif isinstance(value, (list, tuple, set)) and not all(isinstance(inner, _PLAIN) for inner in value):
            stack += reversed([((*path, str(place)), inner) for place, inner in enumerate(value)])
        else:
            yield path, repr(value)
