"""In the steps that a replay looks into, the lines that write buffers of the ranks' own are found, each for its buffer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from ddpdoctor.agent.inside.training.close_up import CloseUp
from ddpdoctor.agent.inside.training.observers import Requested
from tests.agent.followed_rank import FollowedRank, Wrapper

STEPS = 4


def lines_by_step(folder: Path) -> list[dict[str, int]]:
    """By step, what lines wrote outside forward, backward and step, and how many: `mid` is written after each step."""
    module = nn.BatchNorm1d(4)
    module.register_buffer("mid", torch.zeros(4))
    rank = FollowedRank(folder, module, requested=Requested(CloseUp(range(2, 3), "weight")))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(STEPS):
        rank.step(optimizer, torch.randn(8, 4))
        module.mid.add_(1.0)  # type: ignore[operator]
        module.weight.data.mul_(1.0)
    rank.tracker.observers.close_up.settle()
    return [{what: len(lines) for what, lines in step.writes.items()} for step in rank.written(Step)]


def test_a_buffer_that_is_left_to_the_rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("broadcast_buffers", "forward_sync_buffers"):
        monkeypatch.setattr(Wrapper, name, False, raising=False)
    assert lines_by_step(tmp_path) == [{}, {}, {"buffer mid": 1}, {}]


def test_not_one_that_the_wrapper_makes_equal(tmp_path: Path) -> None:
    assert lines_by_step(tmp_path) == [{}] * STEPS
