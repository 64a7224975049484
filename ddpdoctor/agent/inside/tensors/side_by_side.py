"""Copies of small tensors that lie side by side, by device and dtype: what a few operations read of all of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..schema.training_trace import SAMPLED
from . import fingerprint
from .bit_parity import elements_of_memory, parities_of_parts
from .fingerprint import Method
from .gradient_projection import PERIOD, factors_of, factors_of_period, sums_of_parts, turns_of
from .readable_tensors import copier

ROW_BYTES = 256  # a tensor's copy begins at a multiple: it is some rows of 32 words
MOVED_BYTES = 1 << 12  # a tensor, from which on one call for each costs less than to write all of them twice


class Kinds(NamedTuple):
    """What a list of tensors has to be for a plan of their copies to fit: one entry per tensor."""

    shapes: list[torch.Size]
    """How much room each copy takes, with the dtype."""
    dtypes: list[torch.dtype]
    """Copies of one dtype lie side by side."""
    devices: list[torch.device]
    """Copies on one device are in one block."""


def kinds_of(tensors: Sequence[Tensor]) -> Kinds:
    """Shapes, dtypes and devices of these tensors."""
    return Kinds([one.shape for one in tensors], [one.dtype for one in tensors], [one.device for one in tensors])


class DeviceCopies:
    """The copies on one device, by dtype."""

    def __init__(self, device: torch.device, places: list[int], kinds: Kinds, all_sizes: Sequence[int]) -> None:
        places = sorted(places, key=lambda place: str(kinds.dtypes[place]))  # stable
        sizes = [all_sizes[place] for place in places]
        self._words = torch.zeros(sum(map(padded, sizes)) // 8, dtype=torch.int64, device=device)
        self._memory = self._words.view(torch.uint8)
        self.waits = self._words.is_cuda
        self._runs: list[_Run] = []
        self._sizes = sizes
        self._firsts: list[int] = []  # of the words of each
        begin = 0
        numbered = zip(places, sizes, strict=True)
        for dtype, members in groupby(numbered, lambda member: kinds.dtypes[member[0]]):
            run = [*members]
            self._runs.append(_Run(dtype, [place for place, _ in run], kinds.shapes, self._memory[begin:]))
            for _, size in run:
                self._firsts.append(begin // 8)
                begin += padded(size)
        self.order = places
        self.places = torch.tensor(places, device="cpu")
        self._rows = torch.tensor([padded(size) // ROW_BYTES for size in sizes], device="cpu")
        self._owners = torch.repeat_interleave(torch.arange(len(places), device="cpu"), self._rows).to(device)
        self._first_rows = (torch.cumsum(self._rows, 0) - self._rows).numpy()
        self._addresses = [self._words.data_ptr() + 8 * first for first in self._firsts]
        self._gaps = [bytes(padded(size) - size) for size in sizes]

    @cached_property
    def slices(self) -> list[Any]:
        """The memory of each copy, in the order of `places`; of copies in CPU memory."""
        whole = self._memory.numpy().data
        return [whole[8 * first : 8 * first + size] for first, size in zip(self._firsts, self._sizes, strict=True)]

    @cached_property
    def _lanes(self) -> list[Tensor]:
        """The weights of each row in both lanes of the fingerprints."""
        device, rows = self._words.device, self._rows
        first = torch.repeat_interleave(torch.cumsum(rows, 0) - rows, rows)
        row = (torch.arange(int(rows.sum()), device="cpu") - first).to(device)
        longest = int(rows.max())
        return [fingerprint.weights(name, longest, device)[row] for name in ("first", "second")]

    def gather(self, buffers: Sequence[Any]) -> None:
        """Copy what is in `buffers`, by place: the memory of contiguous tensors of these sizes and dtypes on the CPU."""
        chosen = [buffers[place] for place in self.order]
        if sum(self._sizes) >= MOVED_BYTES * len(chosen):
            for _ in map(copier(), self._addresses, map(ctypes.addressof, chosen), self._sizes):
                pass
            return
        together = b"".join(chain.from_iterable(zip(chosen, self._gaps, strict=True)))
        self._memory.numpy().data[:] = together

    def fill(self, tensors: Sequence[Tensor]) -> None:
        """Copy those of `tensors`, by place, that lie here."""
        for run in self._runs:
            run.fill(tensors)

    def copies(self) -> Iterator[tuple[int, Tensor]]:
        """Each copy with its place in the list."""
        for run in self._runs:
            yield from zip(run.places, run.targets, strict=True)

    def fingerprints(self, method: Method) -> Tensor:
        """Of each tensor in the order of `places`, as an int64 tensor of shape [len(places), 2] on the CPU."""
        if method == "xxh3" and not self.waits:
            return fingerprint.table(fingerprint.xxh3(self.slices))
        hashes = fingerprint.row_hashes(self._words.view(-1, ROW_BYTES // 8))
        result = torch.zeros(2, len(self.order), dtype=torch.int64, device=self._words.device)
        for lane, weights in zip(result, self._lanes, strict=True):
            lane.index_add_(0, self._owners, hashes * weights)
        return result.t().cpu()

    def projections(self) -> Tensor:
        """Of each tensor in the order of `places`, on the device."""
        parts = [run.row_projections() for run in self._runs]
        sums = parts[0] if len(parts) == 1 else torch.cat(parts)
        if not self.waits:
            return sums_of_parts(sums, self._first_rows)
        result = torch.zeros(len(self.order), dtype=torch.float64, device=sums.device)
        return result.index_add_(0, self._owners, sums)

    def parities(self) -> list[int]:
        """Of each tensor in the order of `places`; the space between two copies is zero. Only of copies in CPU memory."""
        return parities_of_parts(self._words, self._firsts)

    def samples(self) -> Iterator[tuple[list[int], str, bytes]]:
        """By dtype: the places in the list, the dtype, and the bytes of the elements that are sampled."""
        for run in self._runs:
            yield run.places, *run.sampled()


class _Run:
    """The copies of one dtype in a block, which begin where `room` does."""

    def __init__(self, dtype: torch.dtype, places: list[int], shapes: Sequence[torch.Size], room: Tensor) -> None:
        self.places = places
        self.dtype = dtype
        self._chosen = itemgetter(*places)
        self._all = places == list(range(len(shapes)))
        self._shapes = [shapes[place] for place in places]
        self._counts = [shape.numel() for shape in self._shapes]
        self._begins, end = [], 0
        for count in self._counts:
            self._begins.append(end // dtype.itemsize)
            end += padded(count * dtype.itemsize)
        self._memory = room[:end]
        self._data = self._memory.view(dtype)
        self._row = ROW_BYTES // dtype.itemsize
        self._factors: Tensor | None = None
        self._turns: Tensor | None = None  # of each row

    @cached_property
    def targets(self) -> list[Tensor]:
        """The copies, in the order of `places`."""
        return [
            self._data[begin : begin + count].view(shape)
            for begin, count, shape in zip(self._begins, self._counts, self._shapes, strict=True)
        ]

    def fill(self, tensors: Sequence[Tensor]) -> None:
        chosen: Any = tensors if self._all else self._chosen(tensors)
        torch._foreach_copy_(self.targets, [chosen] if isinstance(chosen, Tensor) else list(chosen))

    def row_projections(self) -> Tensor:
        """A part of a projection for each row, in float64."""
        if self._row == PERIOD and self.dtype is torch.float32:  # no factor for each element, and no products of all
            if self._turns is None:
                self._turns = torch.cat([*map(turns_of, self._counts)]).to(self._data.device)
            return self._data.view(-1, PERIOD).mv(factors_of_period(self._data)) * self._turns
        data = self._data if self._data.dtype in {torch.float32, torch.float64} else self._data.float()
        if self._factors is None:
            self._factors = torch.zeros_like(data)
            for begin, count in zip(self._begins, self._counts, strict=True):
                self._factors[begin : begin + count] = factors_of(count, data)
        return (data * self._factors).view(-1, self._row).mv(data.new_ones(self._row)).double()

    def sampled(self) -> tuple[str, bytes]:
        """Of all copies, the dtype and the bytes of the elements that are sampled; of copies in CPU memory."""
        name = name_of_plain(self.dtype)
        if name:
            return name, elements_of_memory(self._memory.numpy().data, self.dtype.itemsize, self._sampled.numpy())
        return bytes_of(self._data[self._sampled])

    @cached_property
    def _sampled(self) -> Tensor:
        """The places of these elements."""
        return torch.tensor(
            [
                begin + place
                for begin, count in zip(self._begins, self._counts, strict=True)
                for place in sampled_places(count)
            ],
            device="cpu",
        )


def sampled_places(count: int) -> list[int]:
    """Which of `count` elements are sampled."""
    return [count * place // SAMPLED for place in range(SAMPLED)] if count > SAMPLED else list(range(count))


def name_of_plain(dtype: torch.dtype) -> str:
    """The name of a dtype whose elements readers know by their bytes; empty for another."""
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 1):
        return ""
    return str(dtype).removeprefix("torch.")


def bytes_of(elements: Tensor) -> tuple[str, bytes]:
    """The name of a dtype that readers know, and the elements' bytes in it."""
    if elements.dtype.is_floating_point and elements.dtype.itemsize == 1:
        elements = elements.float()
    return str(elements.dtype).removeprefix("torch."), elements.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def padded(size: int) -> int:
    """A size in bytes, with the zeros behind a copy of that size."""
    return -(-size // ROW_BYTES) * ROW_BYTES
