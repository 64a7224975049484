"""Fingerprints of named tensors as they stand in the journal, and exact texts of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .fingerprint import best_method, combined, digests
from .journal import Journal
from .mesh import is_meshed

SAMPLED = 8  # elements a tensor whose values are written down
MOST_SAMPLED = 1 << 20  # of one that a replay asks for: 20 MB of text


class Prints:
    """Takes fingerprints by the method of this rank. A table of weights is written when its content is new."""

    def __init__(self, journal: Journal) -> None:
        self.method = best_method()
        self.closely = ""  # the tensor of which all elements are written down
        self._journal = journal
        self._last = ""
        self._names: list[str] = []

    def write(self, phase: str, named: Mapping[str, Tensor], *, always: bool = False) -> str:
        """Write the fingerprints and some values of `named` as a table of `phase`; returns what stands for its content."""
        tensors = list(named.values())
        table = digests(tensors, self.method)
        key = combined(table, "\n".join(named).encode()).hex()
        if not always and self._last == key:
            return key
        self._last = key
        names = list(named)
        self._journal.write(
            "table", phase=phase, key=key, names=None if names == self._names else names, digests=_hex(table),
            samples=[_samples(tensor, MOST_SAMPLED if name == self.closely else SAMPLED) for name, tensor in named.items()],
            shapes=[list(tensor.shape) for tensor in tensors],
        )  # fmt: skip
        self._names = names
        return key

    def by_name(self, named: Mapping[str, Tensor]) -> dict[str, str]:
        """Each tensor's fingerprint."""
        table = _hex(digests(list(named.values()), self.method))
        return {name: table[16 * place : 16 * place + 16] for place, name in enumerate(named)}

    def of(self, tensors: Iterable[Tensor]) -> str:
        """One fingerprint of all of them."""
        return combined(digests(list(tensors), self.method)).hex()[:16]


def tensors_in(value: Any, depth: int = 3) -> Iterator[Tensor]:  # noqa: ANN401 - whatever a forward takes
    """The tensors of which the whole is on this rank, in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        if not is_meshed(value):
            yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth - 1)


def exact(numbers: Sequence[Tensor]) -> list[str]:
    """Exact texts of tensors of no dimension, fetched from each device at once."""
    by_device: dict[torch.device, list[int]] = {}
    for place, number in enumerate(numbers):
        by_device.setdefault(number.device, []).append(place)
    texts = [""] * len(numbers)
    for places in by_device.values():
        fetched = torch.stack([numbers[place].double() for place in places]).tolist()
        for place, value in zip(places, fetched, strict=True):
            texts[place] = value.hex() if math.isfinite(value) else repr(value)
    return texts


def _hex(table: Tensor) -> str:
    """The first half of each fingerprint, 16 digits each."""
    return table[:, 0].contiguous().numpy().astype(">i8").tobytes().hex()


def _samples(tensor: Tensor, most: int) -> list[Any]:
    """[place in row-major order, value] of `most` evenly spread elements; a GPU is waited for only where a replay asks."""
    count = tensor.numel()
    waits = tensor.is_cuda and most == SAMPLED
    if not count or waits or tensor.is_complex() or tensor.layout is not torch.strided:
        return []
    places = sorted({count * place // most for place in range(most)}) if count > most else list(range(count))
    sampled = tensor.detach().reshape(-1)[torch.tensor(places, device=tensor.device)].cpu()
    texts = [repr(value) if value == value else _bits(sampled[at]) for at, value in enumerate(sampled.tolist())]
    return [[place, text] for place, text in zip(places, texts, strict=True)]


def _bits(nan: Tensor) -> str:
    return f"nan (0x{nan.reshape(1).view(torch.uint8).flip(0).numpy().tobytes().hex()})"
