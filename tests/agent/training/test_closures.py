"""Optimizers that are given a closure, as Lightning does: forward and backward are inside the step."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank

EVERY, BATCH = 4, 3


def audited(folder: Path, *, closure: bool) -> list[tuple[int, int, int]]:
    """The number, the forwards and the samples of each audited step."""
    folder.mkdir()
    followed = FollowedRank(folder, nn.Linear(4, 2), every=EVERY)
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.01)
    step = followed.step_with_closure if closure else followed.step
    for _ in range(3 * EVERY):
        step(optimizer, torch.ones(BATCH, 4))
    followed.tracker.close()
    return [(one.step, one.backward.wrapped, one.backward.batch) for one in followed.written(Step)]


def test_the_same_steps_are_audited_as_without_a_closure(tmp_path: Path) -> None:
    """The step after an audited one is not taken for one of another optimizer with the same gradients."""
    plain = audited(tmp_path / "plain", closure=False)
    assert audited(tmp_path / "closure", closure=True) == plain
    assert [one[1:] for one in plain] == [(1, BATCH)] * len(plain)
