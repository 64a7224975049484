"""Many small tensors read at once: copied side by side by one operation, so that little for each of them happens in Python.

What is computed from the copies (fingerprints, projections, samples) needs a few operations, whatever the number of tensors.
How the copies lie is worked out once and holds for every list of tensors of the same sizes, dtypes and devices. Tensors that
are large, or not plain memory, are read where they are.

With `xxh3`, contiguous tensors in CPU memory are hashed where they are: a copy takes six times as long as the hash of a small
one. They are copied only where more than fingerprints is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from . import fingerprint
from .bit_parity import as_digits, elements_of_memory, parities, parity, parity_of_memory
from .fingerprint import Method
from .gradient_projection import projection
from .readable_tensors import memory, stand_ins
from .side_by_side import DeviceCopies, bytes_of, kinds_of, name_of_plain, padded, sampled_places
from .tensor_addresses import TensorAddresses

# of a tensor: below, copying costs less than the operations that it needs for itself
SMALL_BYTES = {"xxh3": 1 << 17, "linear": 1 << 18}
MOST_BYTES = 1 << 24  # of the copies of one list of tensors
MOST_MISSES = 1  # in a row, before PyTorch's guards are not used: autocast may change between any two reads
KEPT_LAYOUTS = 4  # of lists that are asked for in turns: a job may have several optimizers


class PackedReader:
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
        layout = None
        for one in self._layouts:
            if one.knows(tensors):
                layout = one
                break
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
        self._kinds = kinds_of(tensors)
        self._small = small
        self.shapes = [*map(list, self._kinds.shapes)]
        self._on_cpu = all(device.type in {"cpu", "meta"} for device in {*self._kinds.devices})
        self._blocks: list[DeviceCopies] = []
        self._one_block = False
        self._large: list[int] = []
        self._is_planned = False
        self._sampled: dict[int, Tensor] = {}  # which elements of a large one, by its place
        self._sampled_elements: dict[int, list[int]] = {}  # the same of those that are read in place
        self._where: TensorAddresses | None = None  # of the tensors, where they are read in place
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
                left -= padded(size)
                by_device.setdefault(self._kinds.devices[place], []).append(place)
        self._blocks = [DeviceCopies(device, places, self._kinds, listed) for device, places in by_device.items()]
        packed = {place for places in by_device.values() for place in places}
        self._one_block = len(self._blocks) == 1 and self._blocks[0].places.tolist() == list(range(len(listed)))
        self._large = [place for place in range(len(listed)) if place not in packed]

    def fits(self, tensors: Sequence[Tensor]) -> bool:
        return len(tensors) == len(self.shapes) and self._kinds == kinds_of(tensors)

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
        self._where = TensorAddresses.of(tensors, guarded=guarded) if in_place and self._on_cpu else None
        self._made_anew += 1
        if self._where is not None:
            buffers = self._where.buffers
            if self._where.is_whole:  # what lies where is worked out where it is asked for
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
        result = torch.zeros(len(tensors), 2, dtype=torch.int64, device="cpu")
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
            buffers = self._where.buffers
            return fingerprint.xxh3(buffers if self._where.is_whole else _contents(buffers, tensors))
        found = [b""] * len(tensors)
        for block in self._blocks:
            for place, digest in zip(block.order, fingerprint.xxh3(block.slices), strict=True):
                found[place] = digest
        large = [fingerprint.as_bytes(tensors[place]) for place in self._large]
        for place, digest in zip(self._large, fingerprint.xxh3(map(memory, large)), strict=True):
            found[place] = digest
        return found

    def projections(self, tensors: Sequence[Tensor], large: dict[int, Tensor] | None = None) -> Tensor:
        import numpy as np

        result = np.zeros(len(self.shapes))  # an operation of PyTorch with places takes several times as long
        for block in self._blocks:
            result[block.order] = block.projections().cpu().numpy()
        if large is None:
            large = {place: projection(tensors[place]) for place in self._large}
        elsewhere: dict[torch.device, list[int]] = {}
        for place, value in large.items():
            if value.is_cpu:
                result[place] = value.item()
            else:
                elsewhere.setdefault(value.device, []).append(place)
        for places in elsewhere.values():
            result[places] = torch.stack([large[place].double() for place in places]).cpu().numpy()
        return torch.from_numpy(result)

    def samples(self, tensors: Sequence[Tensor]) -> Iterator[tuple[list[int], str, bytes]]:
        for block in self._blocks:
            if not block.waits:
                yield from block.samples()
        for place in self._large:
            buffer = self._where.buffers[place] if self._where is not None else None
            name = name_of_plain(self._kinds.dtypes[place])
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
                    places = self._sampled[place] = torch.tensor(sampled_places(tensor.numel()), device="cpu")
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
        for place in self._copied_in_another_order(tensors):
            found[place] = int(parities([tensors[place]]), 16)
        return as_digits(found[: len(tensors)])

    def _copied_in_another_order(self, tensors: Sequence[Tensor]) -> list[int]:
        """The places of the tensors whose copies do not have the words in the order of their memory."""
        if self._where is None:
            places: Iterable[int] = range(len(tensors))
        elif self._where.is_whole:
            return []
        else:
            places = [place for place, buffer in enumerate(self._where.buffers[: len(tensors)]) if buffer is None]
        return [
            place for place in places if tensors[place].layout is torch.strided and not tensors[place].is_contiguous()
        ]


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
