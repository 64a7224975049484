"""The values that a collective is compared with: what the reductions give in the dtype itself, without rounding."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "probes"))
from exact_values import PERIOD, Values

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
FLOATS = DTYPES[:4]
CASES = [(op, dtype) for op in ("sum", "prod", "min", "max") for dtype in DTYPES] + [("avg", dtype) for dtype in FLOATS]
REDUCE = {"sum": torch.add, "avg": torch.add, "prod": torch.mul, "min": torch.minimum, "max": torch.maximum}


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 100, 300])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_a_reduction_in_the_dtype_gives_exactly_what_is_expected(op: str, dtype: str, ranks: int) -> None:
    values = Values(op, getattr(torch, dtype), ranks)
    reduced = values.sent(0, 2 * PERIOD + 1)
    for rank in range(1, ranks):
        reduced = REDUCE[op](reduced, values.sent(rank, 2 * PERIOD + 1))
    if op == "avg":
        reduced = reduced / ranks
    assert torch.equal(reduced, values.reduced(2 * PERIOD + 1))
    assert torch.equal(values.reduced(2 * PERIOD + 1)[5:], values.reduced(2 * PERIOD - 4, start=5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_lost_rank_a_doubled_rank_and_moved_elements_show(dtype: str) -> None:
    values = Values("sum", getattr(torch, dtype), 4)
    inputs = [values.sent(rank, 1024) for rank in range(4)]
    expected = values.reduced(1024)
    for lost in range(4):
        for doubled in range(4):
            if lost != doubled:
                received = sum(inputs) - inputs[lost] + inputs[doubled]
                assert not torch.equal(received, expected)
    assert not torch.equal(expected.roll(1), expected)


def test_every_rank_sends_something_else_and_starts_anywhere() -> None:
    values = Values(None, torch.int8, 8)
    sent = [values.sent(rank, PERIOD) for rank in range(8)]
    assert all(not torch.equal(sent[a], sent[b]) for a in range(8) for b in range(a))
    assert torch.equal(values.sent(3, 50, start=20), values.sent(3, 70)[20:])
    assert math.prod(values.sent(0, 0).shape) == 0
