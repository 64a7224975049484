"""How far copies of a tensor lie apart, whole or as it comes over the wire in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ddpdoctor.evidence.replicas import Element
from ddpdoctor.replicas import tolerance
from ddpdoctor.replicas.tensor_diff import ElementDifferences, spread_of
from ddpdoctor.replicas.tolerance import ToleranceCounter

NAN, INF = math.nan, math.inf


def test_the_worst_element_is_found_with_its_index_values_and_count() -> None:
    first = torch.zeros(3, 4)
    second = first.clone()
    second[1, 2], second[2, 3] = 0.5, -2.0
    spread = spread_of([first, second, first])
    assert spread.element is not None
    assert (spread.element.index, spread.element.values) == ((2, 3), ("0", "-2", "0"))
    assert (spread.gap, spread.count, spread.extent, spread.kind) == (2.0, 2, "2 of 12 elements", "value")


def test_of_elements_that_differ_equally_but_for_rounding_the_first_is_shown() -> None:
    before = torch.linspace(0.011, 0.9, 32)
    gaps = ((before + 1).double() - before.double()).tolist()
    assert gaps.index(max(gaps)) != 0, "the example shows nothing"
    assert [one.index for chunk in (32, 4) if (one := shown(before, before + 1, chunk))] == [(0,), (0,)]


def test_a_difference_that_is_larger_by_a_hundredth_is_shown_wherever_it_is() -> None:
    before = torch.zeros(32)
    for place in (0, 5, 31):
        after = before + 1
        after[place] = 1.01
        assert [one.index for chunk in (32, 4) if (one := shown(before, after, chunk))] == [(place,), (place,)]


def shown(before: Tensor, after: Tensor, chunk: int) -> Element | None:
    """The element that is shown where the copies come in pieces of `chunk` elements."""
    spread = ElementDifferences(before.shape)
    for start in range(0, len(before), chunk):
        spread.add(start, [before[start : start + chunk], after[start : start + chunk]])
    return spread.element


GAPS = {
    "equal": ([1.0], [1.0], -1.0),
    "number": ([1.0], [1.25], 0.25),
    "sign of zero": ([0.0], [-0.0], 0.0),
    "NaN against a number": ([NAN], [1.0], INF),
    "infinities": ([INF], [-INF], INF),
    "infinity against a number": ([INF], [1.0], INF),
}


@pytest.mark.parametrize("case", GAPS)
def test_a_gap_is_a_number_or_infinite_and_never_nan(case: str) -> None:
    one, other, gap = GAPS[case]
    assert spread_of([torch.tensor(one), torch.tensor(other)]).gap == gap


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.uint64, torch.bool, torch.bfloat16, torch.float8_e5m2, torch.complex64]
)
def test_every_dtype_is_measured(dtype: torch.dtype) -> None:
    one, other = torch.tensor([0.0, 1.0]).to(dtype), torch.tensor([0.0, 0.0]).to(dtype)
    assert spread_of([one, other]).gap == 1.0


def test_whole_numbers_that_rounding_would_make_equal_differ_by_at_least_one() -> None:
    assert spread_of([torch.tensor([1 << 60]), torch.tensor([(1 << 60) + 1])]).gap == 1.0


class ThreeRanks:
    """A wire on which every rank's tensor lies already."""

    ranks = (0, 1, 2)

    def __init__(self, *tensors: Tensor) -> None:
        self.tensors = tensors
        self.start = 0

    def agree(self, compute: Callable[[], Tensor], _encode: object, count: int) -> tuple[Tensor, Tensor]:
        """What `compute` gives for the first rank's tensor, and the same place of the others'."""
        mine = compute()
        assert mine.numel() == count
        rows = [tensor.contiguous().view(torch.uint8).view(-1) for tensor in self.tensors]
        pieces = [row[self.start : self.start + 8 * count] for row in rows]
        padded = [torch.cat([piece, piece.new_zeros(8 * count - len(piece))]).view(torch.int64) for piece in pieces]
        assert torch.equal(padded[0], mine)
        self.start += 8 * count
        return mine, torch.stack(padded)


@pytest.mark.parametrize("elements", [1, 3, 1000])
def test_a_tolerance_admits_what_is_within_it_and_keeps_the_largest(
    monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    monkeypatch.setattr(tolerance, "PIECE_BYTES", 256)
    tensor = torch.arange(float(elements))
    other = tensor.clone()
    other[-1] += 0.25
    sides = ((0, 2), (1,))
    close, far = ToleranceCounter(0.3), ToleranceCounter(0.2)
    assert close.admits(tensor, sides, ThreeRanks(tensor, other, tensor))  # type: ignore[arg-type]
    assert not far.admits(tensor, sides, ThreeRanks(tensor, other, tensor))  # type: ignore[arg-type]
    assert (close.count, close.largest, far.count) == (1, 0.25, 0)
