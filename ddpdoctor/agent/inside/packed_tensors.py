"""Many small tensors read at once: copied side by side by one operation, so that little for each of them happens in Python.

What is computed from the copies (fingerprints, projections, samples) needs a few operations, whatever the number of tensors.
How the copies lie is worked out once and holds for every list of tensors of the same sizes, dtypes and devices. Tensors that
are large, or not plain memory, are read where they are.

With `xxh3`, contiguous tensors in CPU memory are hashed where they are: a copy takes six times as long as the hash of a small
one. They are copied only where more than fingerprints is asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import fingerprint
from .bit_parity import as_digits, elements_of_memory, parities, parities_of_parts, parity, parity_of_memory
from .fingerprint import Method
from .gradient_projection import PERIOD, projection, signs_of, signs_of_period, sums_of_parts, turns_of
from .readable_tensors import copier, memory, stand_ins
from .schema.training_trace import SAMPLED
from .whereabouts import Whereabouts

ROW_BYTES = 256  # a tensor's copy begins at a multiple: it is some rows of 32 words
# of a tensor: below, copying costs less than the operations that it needs for itself
SMALL_BYTES = {"xxh3": 1 << 17, "linear": 1 << 18}
MOST_BYTES = 1 << 24  # of the copies of one list of tensors
MOVED_BYTES = 1 << 12  # a tensor, from which on one call for each costs less than to write all of them twice
MOST_MISSES = 1  # in a row, before PyTorch's guards are not used: autocast may change between any two reads
KEPT_LAYOUTS = 4  # of lists that are asked for in turns: a job may have several optimizers


class Packed:
    """Reads one list of tensors after another; lists of the same sizes and dtypes use the same space."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._layouts: list[_Layout] = []
        self._latest: _Layout | None = None
        self._stand_ins: dict[int, Tensor] = {}  # of the latest tensors, by place

    def fingerprints(self, tensors: Sequence[Tensor]) -> Tensor:
        """The fingerprints, as an int64 tensor of shape [len(tensors), 2] on the CPU.

        The same method gives the same ones on all ranks, but not those of `fingerprint.digests`: a small tensor that is not
        contiguous is read in row-major order. Tensors without memory on this rank count as empty.
        """
        layout = self._laid_out(tensors)
        return layout.fingerprints(self._readable(tensors), self._method)

    def fingerprints_in_bytes(self, tensors: Sequence[Tensor]) -> bytes:
        """The same as the bytes of that tensor."""
        layout = self._laid_out(tensors)
        return layout.fingerprints_in_bytes(self._readable(tensors), self._method)

    def projections(self, tensors: Sequence[Tensor]) -> Tensor:
        """The projections, as a float64 tensor on the CPU; of the tensors whose fingerprints were asked for last."""
        return self._copied(tensors).projections(self._readable(tensors))

    def samples(self, tensors: Sequence[Tensor]) -> list[tuple[list[int], str, bytes]]:
        """Elements of the tensors whose fingerprints were asked for last: which tensors, their dtype, the elements' bytes.

        Of each tensor `SAMPLED` evenly spread elements in row-major order, or all where it has no more. Tensors on a GPU,
        which would have to be waited for, have none.
        """
        return [*self._copied(tensors).samples(self._readable(tensors))]

    def parities(self, tensors: Sequence[Tensor]) -> str:
        """The parities of `tensors`, as `bit_parity.parities` writes them; the fingerprints of these were asked for last.

        More tensors may have followed them.
        """
        return self._copied(tensors).parities(self._readable(tensors))

    def shapes(self) -> list[list[int]]:
        """The shapes of the tensors whose fingerprints were asked for last."""
        assert self._latest is not None
        return self._latest.shapes

    def _copied(self, tensors: Sequence[Tensor]) -> _Layout:
        """The layout of the list whose fingerprints were asked for last, of which `tensors` are the first, with its copies."""
        assert self._latest is not None
        self._latest.fill(self._readable(tensors))
        return self._latest

    def _readable(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """`tensors`, which are the first of the latest ones, with what is read instead of those that are not plain."""
        if not self._stand_ins:
            return tensors
        return [self._stand_ins.get(place, tensor) for place, tensor in enumerate(tensors)]

    def _laid_out(self, tensors: Sequence[Tensor]) -> _Layout:
        """A layout that is ready to give the fingerprints of `tensors`."""
        layout = next((one for one in self._layouts if one.knows(tensors)), None)
        self._stand_ins = {} if layout is not None else stand_ins(tensors)
        if layout is None:
            tensors = self._readable(tensors)
            in_place = self._method == "xxh3" and not self._stand_ins
            layout = next((one for one in self._layouts if one.fits(tensors)), None)
            if layout is not None:
                layout.read(tensors, in_place=in_place)
        if layout is None:
            layout = _Layout(tensors, SMALL_BYTES[self._method])
            layout.read(tensors, in_place=in_place)
            self._layouts = [layout, *self._layouts[: KEPT_LAYOUTS - 1]]
        elif self._layouts[0] is not layout:
            self._layouts.remove(layout)
            self._layouts.insert(0, layout)
        self._latest = layout
        return layout


class LocalGradients:
    """Copies of gradients, taken one by one as autograd completes them, and their projections."""

    def __init__(self, parameters: Sequence[Tensor], method: Method) -> None:
        self._layout = _Layout(parameters, SMALL_BYTES[method])
        self._layout.plan(map(_packable, parameters))
        self._targets = self._layout.targets()
        self._large: dict[int, Tensor] = {}

    def target(self, place: int) -> Tensor | None:
        """Where the gradient of the parameter at `place` is copied to; None for one that `take` takes."""
        return self._targets.get(place)

    def take(self, place: int, gradient: Tensor) -> None:
        """Note the gradient of the parameter at `place`, whatever its size, dtype and layout."""
        self._large[place] = projection(gradient)

    def projections(self) -> Tensor:
        """The projection of each gradient, as a float64 tensor on the CPU; of what was taken last, or zeros."""
        return self._layout.projections([], self._large)

    def carry_over(self, projections: Tensor) -> None:
        """These are the projections, until other gradients are taken."""
        self._large = dict(enumerate(projections))

    def forget(self) -> None:
        """Other gradients follow."""
        self._large.clear()


class _Layout:
    """Which tensors of a list are copied, and where. That is worked out once a copy is asked for."""

    def __init__(self, tensors: Sequence[Tensor], small: int) -> None:
        self._kinds = _kinds(tensors)
        self._small = small
        self.shapes = [*map(list, self._kinds.shapes)]
        self._on_cpu = all(device.type in {"cpu", "meta"} for device in {*self._kinds.devices})
        self._blocks: list[_Block] = []
        self._one_block = False
        self._large: list[int] = []
        self._is_planned = False
        self._sampled: dict[int, Tensor] = {}  # which elements of a large one, by its place
        self._sampled_elements: dict[int, list[int]] = {}  # the same of those that are read in place
        self._where: Whereabouts | None = None  # of the tensors, where they are read in place
        self._made_anew = 0  # how often in a row, as they were not known again
        self._is_filled = False

    def plan(self, sizes: Iterable[int]) -> None:
        """Work out where the copies lie, unless that has been done; `sizes` are those in bytes, 0 for what is not copied."""
        if self._is_planned:
            return
        self._is_planned = True
        listed = [*sizes]
        by_device: dict[torch.device, list[int]] = {}
        left = MOST_BYTES
        for place, size in enumerate(listed):
            if 0 < size < self._small and size <= left:
                left -= _padded(size)
                by_device.setdefault(self._kinds.devices[place], []).append(place)
        self._blocks = [_Block(device, places, self._kinds, listed) for device, places in by_device.items()]
        packed = {place for places in by_device.values() for place in places}
        self._one_block = len(self._blocks) == 1 and self._blocks[0].places.tolist() == list(range(len(listed)))
        self._large = [place for place in range(len(listed)) if place not in packed]

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        return len(tensors) == len(self.shapes) and self._kinds == _kinds(tensors)

    def knows(self, tensors: Sequence[Tensor]) -> bool:
        """Whether `tensors` are read in place and known to be readable, as the last ones were: then they are ready."""
        self._is_filled = False
        if self._where is None or not self._where.holds(tensors):
            return False
        self._made_anew = 0
        return True

    def read(self, tensors: Sequence[Tensor], *, in_place: bool) -> None:
        """Make `tensors` ready, which fit: to be read `in_place` if that can be, else by a copy of the small ones."""
        self._is_filled = False
        guarded = self._made_anew <= MOST_MISSES
        self._where = Whereabouts.of(tensors, guarded=guarded) if in_place and self._on_cpu else None
        self._made_anew += 1
        if self._where is not None:
            buffers = self._where.buffers
            if all(buffer is not None for buffer in buffers):  # what lies where is worked out where it is asked for
                return
            self.plan(map(_packable, tensors))
            if all(buffers[place] is not None for block in self._blocks for place in block.order):
                return
            self._where = None
        self.fill(tensors)

    def fill(self, tensors: Sequence[Tensor]) -> None:
        """Copy the small ones, unless that has been done; where all are read in place, `tensors` may be the first of them."""
        if self._is_filled:
            return
        if self._where is None:
            self.plan(map(_packable, tensors))
        else:
            self.plan(map(_size_of_plain, self._kinds.shapes, self._kinds.dtypes))
        for block in self._blocks:
            if self._where is not None:
                block.gather(self._where.buffers)
            else:
                block.fill(tensors)
        self._is_filled = True

    def targets(self) -> dict[int, Tensor]:
        """The copies, by place."""
        return {place: target for block in self._blocks for place, target in block.copies()}

    def fingerprints(self, tensors: Sequence[Tensor], method: Method) -> Tensor:
        if method == "xxh3" and self._on_cpu:
            return fingerprint.table(self._hashed(tensors))
        if self._one_block:
            return self._blocks[0].fingerprints(method)
        result = torch.zeros(len(tensors), 2, dtype=torch.int64)
        for block in self._blocks:
            result[block.places] = block.fingerprints(method)
        if self._large:
            result[self._large] = fingerprint.digests([tensors[place] for place in self._large], method)
        return result

    def fingerprints_in_bytes(self, tensors: Sequence[Tensor], method: Method) -> bytes:
        if method == "xxh3" and self._on_cpu:
            return b"".join(self._hashed(tensors))
        return self.fingerprints(tensors, method).numpy().tobytes()

    def _hashed(self, tensors: Sequence[Tensor]) -> list[bytes]:
        """Fingerprints by `xxh3` of tensors in CPU memory."""
        if self._where is not None:
            return fingerprint.xxh3(_contents(self._where.buffers, tensors))
        found = [b""] * len(tensors)
        for block in self._blocks:
            for place, digest in zip(block.order, fingerprint.xxh3(block.slices), strict=True):
                found[place] = digest
        large = [fingerprint.as_bytes(tensors[place]) for place in self._large]
        for place, digest in zip(self._large, fingerprint.xxh3(map(memory, large)), strict=True):
            found[place] = digest
        return found

    def projections(self, tensors: Sequence[Tensor], large: dict[int, Tensor] | None = None) -> Tensor:
        result = torch.zeros(len(self.shapes), dtype=torch.float64)
        for block in self._blocks:
            result[block.places] = block.projections().cpu()
        if large is None:
            large = {place: projection(tensors[place]) for place in self._large}
        by_device: dict[torch.device, list[int]] = {}
        for place, value in large.items():
            by_device.setdefault(value.device, []).append(place)
        for places in by_device.values():
            result[places] = torch.stack([large[place].double() for place in places]).cpu()
        return result

    def samples(self, tensors: Sequence[Tensor]) -> Iterator[tuple[list[int], str, bytes]]:
        for block in self._blocks:
            if not block.waits:
                yield from block.samples()
        for place in self._large:
            buffer = self._where.buffers[place] if self._where is not None else None
            name = _name_of_plain(self._kinds.dtypes[place])
            if name and buffer:
                chosen = self._sampled_elements.get(place)
                if chosen is None:
                    chosen = self._sampled_elements[place] = sampled_places(self._kinds.shapes[place].numel())
                yield [place], name, elements_of_memory(buffer, self._kinds.dtypes[place].itemsize, chosen)
                continue
            tensor = tensors[place].detach()
            if tensor.numel() and not (tensor.is_cuda or tensor.is_complex() or tensor.layout is not torch.strided):
                places = self._sampled.get(place)
                if places is None:
                    places = self._sampled[place] = torch.tensor(sampled_places(tensor.numel()))
                yield [place], *bytes_of(tensor.reshape(-1)[places])

    def parities(self, tensors: Sequence[Tensor]) -> str:
        if not self._on_cpu:
            return parities(tensors)
        found = [0] * len(self.shapes)
        for block in self._blocks:
            for place, one in zip(block.order, block.parities(), strict=True):
                found[place] = one
        for place in self._large:
            if place < len(tensors):
                buffer = self._where.buffers[place] if self._where is not None else None
                found[place] = parity(tensors[place]) if buffer is None else parity_of_memory(buffer)
        for place, tensor in enumerate(tensors):
            # the copy of a tensor that is not contiguous has its words in another order
            in_place = self._where is not None and self._where.buffers[place] is not None
            if not in_place and tensor.layout is torch.strided and not tensor.is_contiguous():
                found[place] = int(parities([tensor]), 16)
        return as_digits(found[: len(tensors)])


class _Block:
    """The copies on one device, by dtype."""

    def __init__(self, device: torch.device, places: list[int], kinds: _Kinds, all_sizes: Sequence[int]) -> None:
        places = sorted(places, key=lambda place: str(kinds.dtypes[place]))  # stable
        sizes = [all_sizes[place] for place in places]
        self._words = torch.zeros(sum(map(_padded, sizes)) // 8, dtype=torch.int64, device=device)
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
                begin += _padded(size)
        self.order = places
        self.places = torch.tensor(places)
        self._rows = torch.tensor([_padded(size) // ROW_BYTES for size in sizes])
        self._owners = torch.repeat_interleave(torch.arange(len(places)), self._rows).to(device)
        self._first_rows = (torch.cumsum(self._rows, 0) - self._rows).numpy()
        self._addresses = [self._words.data_ptr() + 8 * first for first in self._firsts]
        self._gaps = [bytes(_padded(size) - size) for size in sizes]

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
        row = (torch.arange(int(rows.sum())) - first).to(device)
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
        for run in self._runs:
            run.fill(tensors)

    def copies(self) -> Iterator[tuple[int, Tensor]]:
        for run in self._runs:
            yield from zip(run.places, run.targets, strict=True)

    def fingerprints(self, method: Method) -> Tensor:
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
            end += _padded(count * dtype.itemsize)
        self._memory = room[:end]
        self._data = self._memory.view(dtype)
        self._row = ROW_BYTES // dtype.itemsize
        self._signs: Tensor | None = None
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
        if self._row == PERIOD and self.dtype is torch.float32:  # no sign for each element, and no products of all
            if self._turns is None:
                self._turns = torch.cat([*map(turns_of, self._counts)]).to(self._data.device)
            return self._data.view(-1, PERIOD).mv(signs_of_period(self._data)) * self._turns
        data = self._data if self._data.dtype in {torch.float32, torch.float64} else self._data.float()
        if self._signs is None:
            self._signs = torch.zeros_like(data)
            for begin, count in zip(self._begins, self._counts, strict=True):
                self._signs[begin : begin + count] = signs_of(count, data)
        return (data * self._signs).view(-1, self._row).mv(data.new_ones(self._row)).double()

    def sampled(self) -> tuple[str, bytes]:
        """Of all copies, the dtype and the bytes of the elements that are sampled; of copies in CPU memory."""
        name = _name_of_plain(self.dtype)
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
            ]
        )


def sampled_places(count: int) -> list[int]:
    """Which of `count` elements are sampled."""
    return [count * place // SAMPLED for place in range(SAMPLED)] if count > SAMPLED else list(range(count))


def _name_of_plain(dtype: torch.dtype) -> str:
    """The name of a dtype whose elements readers know by their bytes; empty for another."""
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 1):
        return ""
    return str(dtype).removeprefix("torch.")


def bytes_of(elements: Tensor) -> tuple[str, bytes]:
    """The name of a dtype that readers know, and the elements' bytes in it."""
    if elements.dtype.is_floating_point and elements.dtype.itemsize == 1:
        elements = elements.float()
    return str(elements.dtype).removeprefix("torch."), elements.contiguous().view(torch.uint8).cpu().numpy().tobytes()


class _Kinds(NamedTuple):
    """Of each tensor of a list."""

    shapes: list[torch.Size]
    dtypes: list[torch.dtype]
    devices: list[torch.device]


def _kinds(tensors: Sequence[Tensor]) -> _Kinds:
    return _Kinds([one.shape for one in tensors], [one.dtype for one in tensors], [one.device for one in tensors])


def _contents(buffers: Sequence[Any], tensors: Sequence[Tensor]) -> Iterator[Any]:
    """The bytes of each tensor as a buffer, which holds until the next is asked for."""
    for buffer, tensor in zip(buffers, tensors, strict=True):
        if buffer is None:
            data = fingerprint.as_bytes(tensor)
            yield memory(data)
        else:
            yield buffer


def _packable(tensor: Tensor) -> int:
    """Its size in bytes; 0 for a tensor that is not copied: without elements, sparse, complex, on no device.

    A copied boolean is 0 or 1 whatever its byte was.
    """
    plain = tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_quantized)
    return _size_of_plain(tensor.shape, tensor.dtype) if plain else 0


def _size_of_plain(shape: torch.Size, dtype: torch.dtype) -> int:
    """The same of a tensor that has memory."""
    return 0 if dtype is torch.bool or dtype.is_complex else shape.numel() * dtype.itemsize


def _padded(size: int) -> int:
    return -(-size // ROW_BYTES) * ROW_BYTES
