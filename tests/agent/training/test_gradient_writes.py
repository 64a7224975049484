"""How often operations write the averaged gradients between the backward and the step."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.training.ddp_models import Models
from ddpdoctor.agent.inside.training.integrity import IntegrityLog
from ddpdoctor.agent.inside.training.step_counts import StepCounts


def replaced(parameter: nn.Parameter) -> None:
    parameter.grad = torch.ones(1, 4)


@pytest.mark.parametrize(
    ("between", "writes"),
    [
        (lambda _parameter: None, 0),
        (lambda parameter: parameter.grad.mul_(2).add_(1), 2),
        (replaced, None),
        (lambda parameter: setattr(parameter, "grad", None), None),
    ],
)
def test_writes_between_the_backward_and_the_step(
    between: Callable[[nn.Parameter], object], writes: int | None
) -> None:
    module = nn.Linear(4, 1, bias=False)
    models = Models()
    models.add(module)
    written: list[Any] = []
    trace: Any = SimpleNamespace(write=written.append)
    digests: Any = SimpleNamespace(parities=lambda _tensors: "", joined=lambda tensors, _what: "0" * 16 * len(tensors))
    log = IntegrityLog(trace, digests, models)
    log.begin("", 0)
    module(torch.ones(2, 4)).sum().backward()
    log.after_backward()
    between(module.weight)
    log.before_step(torch.optim.SGD([module.weight], lr=0.1))
    log.write(StepCounts(), 0, "")
    assert written[0].gradient_writes == writes


def test_without_a_backward_nothing_is_known_of_writes() -> None:
    written: list[Any] = []
    trace: Any = SimpleNamespace(write=written.append)
    log = IntegrityLog(trace, SimpleNamespace(parities=lambda _tensors: ""), Models())  # type: ignore[arg-type]
    log.before_step(torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1))
    log.write(StepCounts(), 0, "")
    assert written[0].gradient_writes is None
