"""Which tensors have their elements in memory, and what is read instead of the others.

A wrapper subclass, a fake tensor, one of zeros that takes no memory and one whose storage was freed report a size and an
address, but nothing of theirs lies there: to read it is a segmentation fault in the user's job.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..signal_errors import pass_on
from .dtensor import is_meshed

PLAIN_TYPES = frozenset({Tensor, torch.nn.Parameter})
_OPAQUE = ("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float4_e2m1fn_x2")
OPAQUE_DTYPES = frozenset(getattr(torch, name) for name in _OPAQUE if hasattr(torch, name))  # torch cannot index them


def memory(data: Tensor) -> Any:  # noqa: ANN401 - a buffer
    """The memory of a contiguous tensor on the CPU as a buffer, which holds as long as the tensor does.

    `Tensor.numpy` would forbid for good that anybody resizes the tensor's storage. RuntimeError where the tensor's elements
    do not lie there.
    """
    if data.numel() and not _is_in_storage(data):
        raise RuntimeError(f"no memory holds the elements of a {type(data).__name__} of shape {tuple(data.shape)}")
    return readable_memory(data)


def readable_memory(data: Tensor) -> Any:  # noqa: ANN401 - a buffer
    """`memory` of a tensor that is known to have its elements there: a read of any other may be a segmentation fault."""
    size = data.numel() * data.element_size()
    return (ctypes.c_char * size).from_address(data.data_ptr()) if size else b""


@functools.cache
def copier() -> Callable[[int, int, int], object]:
    """Copies memory to an address, from another, of so many bytes; unlike `ctypes.memmove` it does not let other threads run."""
    move = ctypes.PyDLL(None).memmove
    move.argtypes, move.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], None
    return move


def stand_ins(tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """What is read instead of those of `tensors` that are no plain ones, by place.

    That is a view of the same memory, a copy that the tensor's class makes of its elements, or an empty tensor where there
    are no elements to be read on this rank.
    """
    return {place: _stand_in(tensor) for place, tensor in enumerate(tensors) if not _is_plain(tensor)}


def _is_plain(tensor: Tensor) -> bool:
    """Whether torch's own operations read it from memory that is there. Sparse ones count as plain."""
    if type(tensor) not in PLAIN_TYPES:
        return False
    try:
        return tensor.layout is not torch.strided or (
            not (tensor.is_nested or tensor.is_meta or tensor.is_quantized)
            and tensor.dtype not in OPAQUE_DTYPES
            and (not tensor.numel() or _is_in_storage(tensor))
        )
    except (RuntimeError, NotImplementedError) as error:  # one inside a transformation of torch.func has no storage
        pass_on(error)
        return False


def _is_in_storage(tensor: Tensor) -> bool:
    """Whether the elements, at least one, lie in a storage that has memory; of a strided tensor."""
    if type(tensor) not in PLAIN_TYPES or not tensor.data_ptr():
        return False
    if tensor.is_contiguous():  # it is asked of each tensor of a job
        span = tensor.numel()
    else:
        span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + span) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _stand_in(tensor: Tensor) -> Tensor:
    try:
        if not is_meshed(tensor):
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - no public name
                read = _read(tensor)
            if read is not None and _is_plain(read):
                return read
    except Exception as error:  # a class of the user's, which may raise anything
        pass_on(error)
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    return torch.empty(0, dtype=torch.uint8, device="cpu")


def _read(tensor: Tensor) -> Tensor | None:
    """The elements of one that is not plain; None where it has none."""
    if tensor.is_meta:
        return None
    if type(tensor) in PLAIN_TYPES and tensor.is_nested:
        return torch.cat([part.reshape(-1) for part in tensor.unbind()])
    if type(tensor) in PLAIN_TYPES and tensor.is_quantized:
        return tensor.int_repr()
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__ or tensor._is_zerotensor():  # noqa: SLF001
        # zeros, and not empty: a class may copy nothing without an error
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor.detach())
    plain = tensor.detach().as_subclass(Tensor)
    return plain.view(torch.uint8) if plain.dtype in OPAQUE_DTYPES else plain
