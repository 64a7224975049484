"""A forward trains where the module inside the wrapper is in training mode, whatever the mode of the wrapper says."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


def test_a_wrapper_that_was_left_in_evaluation_mode_hides_nothing_of_a_step(tmp_path: Path) -> None:
    followed = FollowedRank(tmp_path, nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1)))
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.1)
    followed.step(optimizer, torch.ones(3, 4))
    followed.model.eval()
    followed.model.module.train()  # as Lightning does after each validation
    followed.tracker.loads(followed.model.module[0])
    followed.step(optimizer, torch.ones(5, 4))
    assert followed.trace.alive
    first, second = followed.written(Step)
    assert (first.forwards, second.forwards) == (1, 2)
    assert (second.backward.wrapped, second.backward.batch, second.bypassed) == (1, 5, {})
    assert second.backward.input is not None
    assert (first.backward.load, second.backward.load is not None) == (None, True)
