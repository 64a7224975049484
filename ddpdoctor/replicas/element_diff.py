"""From differing words back to elements: which index, what values, and whether arithmetic could tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ddpdoctor.evidence.replicas import Element, Kind
from ddpdoctor.replicas.hash_tree import TensorDifference
from ddpdoctor.replicas.tensor_diff import ElementDifferences


def element(
    tensor: Tensor, located: TensorDifference, sides: Sequence[Sequence[int]]
) -> tuple[Element | None, Kind, str]:
    """The first element with the largest difference among those located, the kind of all of them, and how much differs.

    `sides` are positions in `located.values`, the ranks of one side having the same bytes.
    """
    if not len(located.words):
        return None, "value", ""
    size = tensor.element_size()
    columns = [located.values[side[0]].contiguous().view(torch.uint8).view(tensor.dtype).flatten() for side in sides]
    per_word = max(1, 8 // size)
    if size > 8:  # complex128: two words an element
        keep = torch.tensor([bool(word % 2 == 0 and word + 1 in located.words) for word in located.words.tolist()])
        if not keep.any():
            return None, "value", ""
    first = (located.words * 8 // size).repeat_interleave(per_word)[: len(columns[0])]
    offsets = first + torch.arange(len(first)) % per_word
    raw = [column.view(torch.uint8).view(len(offsets), -1) for column in columns]
    differ = torch.stack([(other != raw[0]).any(1) for other in raw]).any(0) & (offsets < tensor.numel())
    offsets = offsets[differ]
    spread = ElementDifferences(offsets.shape)
    spread.add(0, [column[differ] for column in columns])
    if spread.element is None:
        return None, "value", ""
    found = replace(spread.element, index=index_of(int(offsets[spread.element.index[0]]), tensor))
    return found, spread.kind, _extent(spread.count, tensor.numel(), located)


def index_of(offset: int, tensor: Tensor) -> tuple[int, ...]:
    """The index of the element at `offset` in storage order, for a dense tensor in any order of its dimensions."""
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor.detach())
    strides = tensor.stride() if dense else tensor.new_empty(tensor.shape, device="meta").stride()
    index = [0] * tensor.dim()
    for dimension in sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension]):
        if tensor.shape[dimension] > 1:
            index[dimension], offset = divmod(offset, strides[dimension])
    return tuple(index)


def _extent(found: int, total: int, located: TensorDifference) -> str:
    if located.complete:
        return f"{found:,} of {total:,} elements"
    return f"{located.blocks:,} or more blocks of {located.block_bytes:,} bytes"
