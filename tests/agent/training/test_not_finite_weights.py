"""Which weights are said to be not finite."""

from __future__ import annotations

import torch
from torch import Tensor

from ddpdoctor.agent.inside.training.gradients import not_finite


def weight(*values: float, trained: bool = True) -> Tensor:
    return torch.tensor(values, requires_grad=trained)


def test_only_trained_weights_that_torch_can_tell_it_of() -> None:
    nan, infinite = float("nan"), float("inf")
    named = {
        "finite": weight(1.0, 2.0),
        "eighths": torch.tensor([nan]).to(torch.float8_e4m3fn).requires_grad_(),
        "sparse": torch.tensor([nan]).to_sparse().requires_grad_(),
        "statistics": weight(nan, trained=False),
        "nan": weight(1.0, nan),
        "inf": weight(-infinite, 0.0),
        "meta": torch.ones(2, device="meta", requires_grad=True),
    }
    assert [*not_finite(named)] == ["nan", "inf"]
