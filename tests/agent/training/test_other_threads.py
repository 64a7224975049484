"""A thread beside the training trains a model of its own, as an online metric or a search for settings does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


def trained_beside(rank: FollowedRank) -> None:
    """What the hooks of the tracker see of a step with another model."""
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 3)).sum()
    rank.tracker.backwards.begins()
    loss.backward()
    rank.tracker.backwards.over(loss)
    rank.tracker.steps.before(optimizer, (), {})
    optimizer.step()
    rank.tracker.steps.after(optimizer, (), {})


def test_steps_of_another_thread_are_no_steps_of_the_training(tmp_path: Path) -> None:
    rank = FollowedRank(tmp_path, nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(rank.model.parameters())
    with ThreadPoolExecutor(1) as other:
        for _ in range(3):
            rank.step(optimizer, torch.ones(2, 4))
            rank.tracker.forwards.outer(rank.model, [torch.ones(2, 4)])  # a window of the training is open
            other.submit(trained_beside, rank).result()
    steps = rank.written(Step)
    assert [step.step for step in steps] == [0, 1, 2]
    assert {step.stepping.optimizer for step in steps} == {"AdamW"}


def test_an_optimizer_of_the_wrapped_model_may_step_in_a_thread_of_its_own(tmp_path: Path) -> None:
    rank = FollowedRank(tmp_path, nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(rank.model.parameters())

    def step() -> None:
        rank.tracker.steps.before(optimizer, (), {})
        optimizer.step()
        rank.tracker.steps.after(optimizer, (), {})

    with ThreadPoolExecutor(1) as other:
        for _ in range(2):
            rank.tracker.forwards.outer(rank.model, [torch.ones(2, 4)])
            rank.model(torch.ones(2, 4)).sum().backward()
            other.submit(step).result()
    assert [step.step for step in rank.written(Step)] == [0, 1]
