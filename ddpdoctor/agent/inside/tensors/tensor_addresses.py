"""Where the elements of a list of tensors lie in CPU memory, and whether they still lie there at the next read.

What makes a tensor readable is looked at once (`readable_tensors`). At each later read, PyTorch's own guards of compiled code
tell in one call whether type, dtype, device, sizes, strides and dispatch keys of all tensors are the same, in a fifth of the
instructions that asking each in Python takes. Addresses are compared besides, because a storage may be freed or replaced.
Where an address is the same, so is the memory: PyTorch allocates the new memory of a storage before it frees the old.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from ..signal_errors import pass_on
from .readable_tensors import PLAIN_TYPES, memory, readable_memory

_DESCRIBED: Callable[[Tensor], Any] = attrgetter("dtype", "shape", "device", "layout", "requires_grad")


class TensorAddresses:
    """Of tensors that are plain ones in CPU memory.

    `buffers` has the memory of each, None where it is not contiguous; `is_whole` is whether it has that of all.
    """

    def __init__(self, tensors: Sequence[Tensor], *, guarded: bool) -> None:
        self._are_alike = _likeness(tensors, guarded=guarded)
        self._addresses = _addresses(tensors)
        self.buffers: list[Any] = [
            readable_memory(tensor) if _is_in_row_major_order(tensor) else None for tensor in tensors
        ]
        self.is_whole = all(buffer is not None for buffer in self.buffers)

    @classmethod
    def of(cls, tensors: Sequence[Tensor], *, guarded: bool = True) -> TensorAddresses | None:
        """Those of `tensors`, all of which are readable; None where one has no storage, such as a sparse one.

        Without `guarded`, PyTorch's guards are not used: they also tell apart what does not matter here, such as autocast and
        inference mode.
        """
        if not (tensors and PLAIN_TYPES.issuperset(map(type, tensors))):
            return None
        try:
            return cls(tensors, guarded=guarded)
        except (RuntimeError, NotImplementedError) as error:
            pass_on(error)
            return None

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Whether `tensors` are readable as the earlier ones were; `buffers` then has the memory of these.

        False where that is to be looked at again.
        """
        if len(tensors) != len(self.buffers) or not self._are_alike(*tensors):
            return False
        addresses = _addresses(tensors)
        if addresses == self._addresses:
            return True
        for place, tensor in enumerate(tensors):
            if addresses[place] != self._addresses[place]:
                if self.buffers[place] is None:
                    return False
                try:
                    self.buffers[place] = memory(tensor)
                except RuntimeError as error:  # its storage was freed
                    pass_on(error)
                    return False
                self._addresses[place] = addresses[place]
        return True


def _addresses(tensors: Sequence[Tensor]) -> list[int]:
    return [*map(Tensor.data_ptr, tensors)]


def _likeness(tensors: Sequence[Tensor], *, guarded: bool) -> Callable[..., bool]:
    """A function that tests whether tensors match `tensors` pairwise in everything but content and address.

    PyTorch's guards accept no list in which one tensor is twice.
    """
    guarded = guarded and len({*map(id, tensors)}) == len(tensors) and _torch_has_guards()
    return (_likeness_in_torch if guarded else _likeness_in_python)(tensors)


class _Subclass(Tensor):
    """Whatever a user derives from a tensor."""


@functools.cache
def _torch_has_guards() -> bool:
    """Whether this version has guards that see every difference which matters here: they are no public interface."""
    known = torch.zeros(2, 2, device="cpu")
    number = torch.zeros(2, dtype=torch.complex64, device="cpu")
    try:
        negative = known._neg_view()  # noqa: SLF001 - no public name
        others = (
            known.t(), known.view(4), known.view(torch.int32), negative, known.to_sparse(), known.to("meta"),
            known.as_subclass(_Subclass), torch.nn.Parameter(known, requires_grad=False),
        )  # fmt: skip
        is_alike = _likeness_in_torch([known])
        has_its_bits = not _likeness_in_torch([number])(number.conj())
        return is_alike(torch.ones(2, 2, device="cpu")) and not any(map(is_alike, others)) and has_its_bits
    except Exception as error:  # it has none, or others
        pass_on(error)
        return False


def _likeness_in_torch(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    from torch._C._dynamo.guards import TensorGuards

    sizes: list[Any] = [[*tensor.shape] for tensor in tensors]
    strides: list[Any] = [[*tensor.stride()] for tensor in tensors]
    guard: Callable[..., bool] = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return guard


def _likeness_in_python(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    def description(those: Sequence[Tensor]) -> list[Any]:
        return [(type(one), *_DESCRIBED(one), one.stride(), one.is_conj(), one.is_neg()) for one in those]

    known = description(tensors)

    def are_alike(*those: Tensor) -> bool:
        try:
            return description(those) == known
        except (RuntimeError, NotImplementedError) as error:  # one without strides
            pass_on(error)
            return False

    return are_alike


def _is_in_row_major_order(tensor: Tensor) -> bool:
    """Whether its memory holds its elements in row-major order and nothing else."""
    plain = tensor.layout is torch.strided and not (tensor.is_meta or tensor.is_quantized)
    return plain and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
