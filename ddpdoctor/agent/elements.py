"""From differing words back to elements: which index, what values, and whether arithmetic could tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ddpdoctor.agent.tree import Located
from ddpdoctor.evidence.replicas import Element, Kind


def element(tensor: Tensor, located: Located, sides: Sequence[Sequence[int]]) -> tuple[Element | None, Kind, str]:
    """The element with the largest difference among those located, the kind of all of them, and how much differs.

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
    numbers = differ.nonzero().flatten().tolist()
    if not numbers:
        return None, "value", ""
    ranked = [(_gap([column[number].item() for column in columns]), number) for number in numbers]
    gap, number = max(ranked, key=lambda pair: (math.isnan(pair[0]), pair[0], -pair[1]))
    found = Element(
        index=index_of(int(offsets[number]), tensor),
        values=distinct([column[number] for column in columns]),
        difference=None if not math.isfinite(gap) else gap,
    )
    kinds = {_kind([column[number].item() for column in columns]) for number in numbers}
    kind: Kind = kinds.pop() if len(kinds) == 1 else "value"
    return found, kind, _extent(len(numbers), tensor.numel(), located)


def index_of(offset: int, tensor: Tensor) -> tuple[int, ...]:
    """The index of the element at `offset` in storage order, for a dense tensor in any order of its dimensions."""
    dense = torch.ops.aten.is_non_overlapping_and_dense(tensor.detach())
    strides = tensor.stride() if dense else tensor.new_empty(tensor.shape, device="meta").stride()
    index = [0] * tensor.dim()
    for dimension in sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension]):
        if tensor.shape[dimension] > 1:
            index[dimension], offset = divmod(offset, strides[dimension])
    return tuple(index)


def distinct(values: Sequence[Tensor]) -> tuple[str, ...]:
    """The values as short as keeps different ones apart; with their bits where even all digits do not."""
    numbers = [value.item() for value in values]
    apart = len({value.contiguous().view(-1).view(torch.uint8).numpy().tobytes() for value in values})
    for digits in (4, 6, 9, 17):
        texts = [_text(number, digits) for number in numbers]
        if len(set(texts)) == apart:
            return tuple(texts)
    bits = [value.contiguous().view(-1).view(torch.uint8).numpy()[::-1].tobytes().hex() for value in values]
    return tuple(f"{text} (0x{hexed})" for text, hexed in zip(texts, bits, strict=True))


def _text(number: complex, digits: int) -> str:
    return str(number) if isinstance(number, (bool, int)) else f"{number:.{digits}g}"


def _gap(numbers: Sequence[complex]) -> float:
    try:
        return float(max(abs(a - b) for a in numbers for b in numbers))
    except (OverflowError, ValueError):
        return math.nan


def _kind(numbers: Sequence[complex]) -> Kind:
    if all(number != number for number in numbers):
        return "NaN payload"
    if all(number == numbers[0] for number in numbers):
        return "sign of zero"
    return "value"


def _extent(found: int, total: int, located: Located) -> str:
    if located.complete:
        return f"{found:,} of {total:,} elements"
    return f"{located.blocks:,} or more blocks of {located.block_bytes:,} bytes"
