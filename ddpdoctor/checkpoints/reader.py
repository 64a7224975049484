"""What every format gives: a tree of tensors and plain values, flattened into leaves with a path."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

MOST_LEAVES = 2_000_000  # a checkpoint of 100,000 tensors with Adam state has 400,000
LEAST_LEAVES = 1000
DEEPEST = 100
MOST_EXPANDED_BYTES = 64 << 20  # of a view in which elements share memory

Path_: TypeAlias = tuple[str, ...]
_PLAIN = (int, float, str, bool, complex, bytes, type(None))


class UnreadableError(Exception):
    """Why a checkpoint cannot be read, as the end of a sentence that begins with its name."""


class Stored(Protocol):
    """One checkpoint."""

    ordered: bool
    """Whether its names stand in the order of the model."""

    def leaves(self) -> Iterator[tuple[Path_, Tensor | str]]:
        """Every tensor, and every plain value as text, one at a time.

        Raises:
            UnreadableError: it is broken, or asks for more than data.
        """

    def tensor(self, path: Path_) -> Tensor:
        """The tensor at `path`, one that `leaves` gave."""


def flattened(tree: object, *, stored_bytes: int | None = None) -> Iterator[tuple[Path_, Tensor | str]]:
    """The leaves of nested mappings and sequences; a sequence of plain values is one leaf.

    `stored_bytes` is the size of what they were read from: each entry takes a byte of it at least, unless containers are shared.

    Raises:
        UnreadableError: the tree contains itself, is larger than any checkpoint or than what it was read from, or a tensor has
            no data.
    """
    most = MOST_LEAVES if stored_bytes is None else min(MOST_LEAVES, max(LEAST_LEAVES, stored_bytes))
    count = 0
    stack: list[tuple[Path_, object]] = [((), tree)]
    while stack:
        path, value = stack.pop()
        count += 1
        if count > most or len(path) > DEEPEST:
            raise UnreadableError(f"holds more than {most:,} entries, or is nested without end")
        if isinstance(value, Namespace):
            value = vars(value)
        if isinstance(value, Tensor):
            _refuse_without_data(path, value)
            yield path, value
        elif isinstance(value, Mapping):
            stack += reversed([((*path, str(key)), inner) for key, inner in value.items()])
        elif isinstance(value, (list, tuple, set)) and not all(isinstance(inner, _PLAIN) for inner in value):
            stack += reversed([((*path, str(place)), inner) for place, inner in enumerate(value)])
        else:
            yield path, repr(value)


def _refuse_without_data(path: Path_, tensor: Tensor) -> None:
    name = ".".join(path)
    if tensor.is_meta:
        raise UnreadableError(f"holds no data for {name}: it was saved from the device meta")
    expanded = tensor.numel() * tensor.element_size()
    if tensor.layout is torch.strided and expanded > max(MOST_EXPANDED_BYTES, tensor.untyped_storage().nbytes()):
        raise UnreadableError(
            f"holds {name} as {expanded:,} bytes in {tensor.untyped_storage().nbytes():,} bytes of storage"
        )
