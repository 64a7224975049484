"""Gradients whose rows are alike, as those of real models often are, have a projection as others do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ddpdoctor.agent.inside.tensors.gradient_projection import factors_of, projection
from ddpdoctor.agent.inside.tensors.packed_tensors import PackedReader

WIDTHS = [*range(1, 17), 24, 32, 48, 63, 64, 65, 96, 100, 128, 192, 256, 300, 512, 768, 1024, 2048, 3072, 4096, 8192]
FAMILIES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "identical": lambda row, rows: row.expand(rows, -1),
    "opposite in turn": lambda row, rows: torch.stack([row if place % 2 else -row for place in range(rows)]),
    "opposite halves": lambda row, rows: torch.cat([row.expand(rows // 2, -1), -row.expand(rows - rows // 2, -1)]),
    "of sum zero": lambda row, rows: torch.cat([(rows - 1) * row[None], -row.expand(rows - 1, -1)]),  # cross entropy
}


@pytest.mark.parametrize("rows", [2, 3, 4, 8, 10, 16, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_that_are_alike_do_not_cancel_out(family: str, rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    for width in WIDTHS:
        drawn = [FAMILIES[family](torch.randn(width, generator=generator), rows) for _ in range(8)]
        ratios = torch.stack([projection(one).abs() / one.norm() for one in drawn])
        assert ratios.min() > 1e-5, f"{rows} x {width}"
        assert ratios.square().mean().sqrt() > 5e-3, f"{rows} x {width}"


def test_of_copies_neither() -> None:
    row = torch.randn(8192, generator=torch.Generator().manual_seed(1))
    gradients = [row[:width].expand(2, -1) * torch.tensor([[1.0], [sign]]) for width in WIDTHS for sign in (1, -1)]
    packed = PackedReader("xxh3")
    packed.fingerprints(gradients)
    found = packed.projections(gradients).abs()
    assert (found > 1e-3 * torch.stack([one.double().norm() for one in gradients])).all()


@pytest.mark.parametrize("count", [1, 64, 5000, 12_288])
def test_a_projection_is_the_product_with_its_factors(count: int) -> None:
    gradient = torch.randn(count, dtype=torch.float64, generator=torch.Generator().manual_seed(count))
    factors = factors_of(count, gradient)
    torch.testing.assert_close(projection(gradient), torch.dot(gradient, factors))
    assert 0.5 <= float(factors.abs().min() ** (1 / 3)) <= float(factors.abs().max() ** (1 / 3)) <= 1.5
