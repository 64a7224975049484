"""How far copies of one tensor lie apart: which element, by how much, how many, and whether arithmetic could tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ddpdoctor.analysis.replicas.comparison import ALIKE, DIGITS, row_major_index, shortest_texts
from ddpdoctor.evidence.replicas import Element, Kind

CHUNK = 1 << 20  # elements looked at at once: bounds the temporaries, whatever the tensor's size


class ElementDifferences:
    """Fed piece by piece with the same elements of every copy, in row-major order; `gap` is the largest difference.

    Of elements whose differences are equal to three digits, the first is shown. `gap` is infinite where a number stands
    against a NaN or an infinity, and 0 where only bits differ. Complex numbers are measured from the first copy's.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._kinds: set[Kind] = set()
        self._shown_gap = -1.0
        self._shown: tuple[int, tuple[str, ...]] | None = None
        self.count = 0
        self.gap = -1.0

    def add(self, start: int, pieces: Sequence[Tensor]) -> None:
        """The elements from `start` on, one piece a copy, all of one dtype and length."""
        raw = [piece.contiguous().view(torch.uint8).view(len(piece), -1) for piece in pieces]
        apart = torch.stack([(other != raw[0]).any(1) for other in raw[1:]]).any(0).nonzero().flatten()
        if not len(apart):
            return
        self.count += len(apart)
        first = pieces[0][apart]
        highest = lowest = _number(first)
        every_nan, equal = highest.isnan(), torch.ones(len(apart), dtype=torch.bool)
        gaps = torch.zeros(len(apart), dtype=torch.float64)
        for piece in pieces[1:]:
            values = _number(piece[apart])
            every_nan &= values.isnan()
            equal &= _exact(piece[apart]) == _exact(first)
            if values.is_complex():
                gaps = torch.maximum(gaps, (values - highest).abs())
            else:
                highest, lowest = torch.maximum(highest, values), torch.minimum(lowest, values)
                gaps = highest - lowest
        if not (first.is_floating_point() or first.is_complex()):
            gaps = gaps.clamp(min=1)  # whole numbers beyond 2^53 are rounded here
        gaps = gaps.nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(every_nan | equal, 0.0)
        kinds: dict[Kind, Tensor] = {"NaN payload": every_nan, "sign of zero": equal, "value": ~every_nan & ~equal}
        self._kinds |= {kind for kind, found in kinds.items() if bool(found.any())}
        largest = float(gaps.max())
        self.gap = max(self.gap, largest)
        if self._shown is None or self._shown_gap < largest * ALIKE:
            place = int((gaps >= largest * ALIKE).nonzero()[0])
            here = int(apart[place])
            self._shown_gap = float(gaps[place])
            self._shown = start + here, distinct([piece[here] for piece in pieces])

    @property
    def kind(self) -> Kind:
        """What all the differing elements are, or `value` where they are not all of one kind."""
        return next(iter(self._kinds)) if len(self._kinds) == 1 else "value"

    @property
    def element(self) -> Element | None:
        """The first element with the largest difference; None where the copies are equal."""
        if self._shown is None:
            return None
        offset, values = self._shown
        difference = self._shown_gap if math.isfinite(self._shown_gap) else None
        return Element(index=row_major_index(offset, self._shape), values=values, difference=difference)

    @property
    def extent(self) -> str:
        """`3 of 2,048 elements`."""
        return f"{self.count:,} of {math.prod(self._shape):,} elements"


def spread_of(tensors: Sequence[Tensor]) -> ElementDifferences:
    """The spread of whole tensors of one dtype and shape."""
    spread = ElementDifferences(tensors[0].shape)
    flat = [tensor.detach().contiguous().view(-1) for tensor in tensors]
    for start in range(0, flat[0].numel(), CHUNK):
        spread.add(start, [column[start : start + CHUNK] for column in flat])
    return spread


def distinct(values: Sequence[Tensor]) -> tuple[str, ...]:
    """The values as short as keeps different ones apart; with their bits where even all digits do not."""
    numbers = [value.item() for value in values]
    apart = len({value.contiguous().view(-1).view(torch.uint8).numpy().tobytes() for value in values})
    texts = shortest_texts(numbers, apart)
    if texts is not None:
        return texts
    texts = tuple(str(number) if isinstance(number, (bool, int)) else f"{number:.{DIGITS[-1]}g}" for number in numbers)
    bits = [value.contiguous().view(-1).view(torch.uint8).numpy()[::-1].tobytes().hex() for value in values]
    return tuple(f"{text} (0x{hexed})" for text, hexed in zip(texts, bits, strict=True))


def _number(values: Tensor) -> Tensor:
    """The values in a type that can be subtracted without a surprise."""
    return values.to(torch.complex128) if values.is_complex() else values.double()


def _exact(values: Tensor) -> Tensor:
    """The values in a type that can be compared and loses nothing: float8 knows no comparison."""
    return values.float() if values.is_floating_point() and values.element_size() == 1 else values
