"""The step of a rank's first loss that was not finite, on the processor and on a device that is read later."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses import FakeTensorMode

from ddpdoctor.agent.inside.training.first_lost_loss import FirstLostLoss


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_the_first_loss_that_is_not_finite_is_kept(lost: float) -> None:
    losses = FirstLostLoss()
    for step, loss in enumerate([2.5, lost, 2.5, lost]):
        losses.look_at(torch.tensor(loss), step)
    losses.read()

    assert losses.step == 1
    assert losses.line is not None


def test_what_is_no_loss_of_one_number_is_passed_over() -> None:
    losses = FirstLostLoss()
    losses.look_at(torch.tensor([math.nan, 1.0]), 0)
    losses.look_at(torch.tensor(2.5), 1)
    losses.look_at(torch.tensor(math.nan, device="meta"), 2)
    with FakeTensorMode():
        losses.look_at(torch.tensor(math.nan), 3)
    losses.read()

    assert losses.step is None
