"""Which parameters have hooks on their gradients while every step is audited, and parameters come and go between steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from ddpdoctor.agent.inside.training.gradients import _Hooks
from tests.agent.followed_rank import FollowedRank


def test_a_parameter_is_followed_from_the_step_before_which_it_was_unfrozen_or_added(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    module[1].weight.requires_grad_(False)
    rank, batch = FollowedRank(tmp_path, module), torch.ones(3, 2)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    rank.step(optimizer, batch)
    module[1].weight.requires_grad_(True)
    rank.step(optimizer, batch)
    module[0].weight.requires_grad_(False)
    rank.step(optimizer, batch)
    module.append(nn.Linear(2, 2, bias=False))
    optimizer.add_param_group({"params": [*module[2].parameters()]})
    rank.step(optimizer, batch)
    assert [step.gradients.counts for step in rank.written(Step)] == [[1, 1], [1, 1, 1], [1, 1], [1, 1, 1]]


def test_hooks_that_stay_are_not_looked_through_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[int] = []
    follow = _Hooks.follow
    monkeypatch.setattr(_Hooks, "follow", lambda hooks, those: followed.append(len(those)) or follow(hooks, those))  # type: ignore[func-returns-value]
    module = nn.Linear(2, 2)
    rank, optimizer = FollowedRank(tmp_path, module), torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(5):
        rank.step(optimizer, torch.ones(3, 2))
    rank.trace.close()
    assert len(followed) <= 2
