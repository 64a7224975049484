"""Where weights were loaded: the next audited step tells it, also where other steps were made since."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


def test_a_load_between_two_audits_is_told_at_the_next_one_and_not_again(tmp_path: Path) -> None:
    followed = FollowedRank(tmp_path, nn.Linear(4, 2), every=4)
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.01)
    line = 0
    for step in range(10):
        followed.step(optimizer, torch.ones(2, 4))
        if step == 1:
            followed.tracker.loads(followed.model.module)
            frame = inspect.currentframe()
            assert frame is not None
            line = frame.f_lineno - 3
    followed.tracker.close()
    told = {step.step: step.backward.load for step in followed.written(Step)}
    assert {step: load.line for step, load in told.items() if load is not None} == {3: line}
