"""Fingerprints and values of named tensors as they stand in the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .dtensor import is_meshed
from .fingerprint import best_method, combined, digests
from .schema.training_trace import Table
from .trace_writer import TraceWriter

SAMPLED = 8  # elements a tensor whose values are written down
MOST_SAMPLED = 1 << 20  # of one that a replay asks for: 20 MB of text


class Digests:
    """Takes fingerprints by the method of this rank. A table of weights is written when its content is new."""

    def __init__(self, trace: TraceWriter) -> None:
        self.method = best_method()
        self.whole_tensor = ""  # the tensor of which all elements are written down
        self._trace = trace
        self._last = ""
        self._names: list[str] = []
        self._segment = trace.segment

    def write(self, phase: str, named: Mapping[str, Tensor], *, always: bool = False) -> str:
        """Write the fingerprints and some values of `named` as a table of `phase`; returns what stands for its content."""
        if self._segment != self._trace.segment:  # which holds no table yet
            self._segment, self._last, self._names = self._trace.segment, "", []
        tensors = list(named.values())
        table = digests(tensors, self.method)
        key = combined(table, "\n".join(named).encode()).hex()
        if not always and self._last == key:
            return key
        self._last = key
        names = list(named)
        self._trace.write(
            Table(
                phase=phase,
                key=key,
                names=None if names == self._names else names,
                digests=_hex(table),
                samples=[
                    _samples(tensor, MOST_SAMPLED if name == self.whole_tensor else SAMPLED)
                    for name, tensor in named.items()
                ],
                shapes=[list(tensor.shape) for tensor in tensors],
            )
        )
        self._names = names
        return key

    def by_name(self, named: Mapping[str, Tensor]) -> dict[str, str]:
        """Each tensor's fingerprint."""
        table = _hex(digests(list(named.values()), self.method))
        return {name: table[16 * place : 16 * place + 16] for place, name in enumerate(named)}

    def joined(self, tensors: Sequence[Tensor]) -> str:
        """The fingerprints of all tensors, one after the other."""
        return _hex(digests(tensors, self.method))

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


def numbers_of(scalars: Sequence[Tensor]) -> list[float]:
    """The values of tensors of no dimension, fetched from each device at once."""
    by_device: dict[torch.device, list[int]] = {}
    for place, scalar in enumerate(scalars):
        by_device.setdefault(scalar.device, []).append(place)
    values = [0.0] * len(scalars)
    for places in by_device.values():
        fetched = torch.stack([scalars[place].double() for place in places]).tolist()
        for place, value in zip(places, fetched, strict=True):
            values[place] = value
    return values


def _hex(table: Tensor) -> str:
    """The first half of each fingerprint, 16 digits each."""
    return table[:, 0].contiguous().numpy().astype(">i8").tobytes().hex()


def _samples(tensor: Tensor, most: int) -> list[tuple[int, str]]:
    """Place in row-major order and value of `most` evenly spread elements; waits for a GPU only where a replay asks for it."""
    count = tensor.numel()
    waits = tensor.is_cuda and most == SAMPLED
    if not count or waits or tensor.is_complex() or tensor.layout is not torch.strided:
        return []
    places = sorted({count * place // most for place in range(most)}) if count > most else list(range(count))
    sampled = tensor.detach().reshape(-1)[torch.tensor(places, device=tensor.device)].cpu()
    texts = [repr(value) if value == value else _bits(sampled[at]) for at, value in enumerate(sampled.tolist())]
    return list(zip(places, texts, strict=True))


def _bits(nan: Tensor) -> str:
    return f"nan (0x{nan.reshape(1).view(torch.uint8).flip(0).numpy().tobytes().hex()})"
