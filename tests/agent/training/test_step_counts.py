"""Which steps are counted for which optimizer, and how many of the steps that are only counted are timed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.final_records import End
from ddpdoctor.agent.inside.training.counted_windows import SAMPLED
from ddpdoctor.agent.inside.training.optimizer_settings import Settings
from ddpdoctor.agent.inside.training.step_counts import MOST_OPTIMIZERS, StepsByOptimizer
from tests.agent.followed_rank import FollowedRank


def steps_of_each(rank: FollowedRank) -> list[tuple[str, int]]:
    rank.tracker.close()
    (end,) = rank.written(End)
    return [(one.name, one.steps) for one in end.by_optimizer]


def test_an_optimizer_at_the_address_of_a_freed_one_is_another_one(tmp_path: Path) -> None:
    module = nn.Linear(4, 2)
    rank, batch = FollowedRank(tmp_path, module), torch.ones(3, 4)
    addresses = []
    for _ in range(MOST_OPTIMIZERS):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        addresses.append(id(optimizer))
        rank.step(optimizer, batch)
    assert steps_of_each(rank) == [("SGD", 1)] * MOST_OPTIMIZERS
    if len({*addresses}) == MOST_OPTIMIZERS:
        pytest.skip("no address was given twice")


def test_of_optimizers_without_end_the_first_ones_are_counted(tmp_path: Path) -> None:
    module = nn.Linear(4, 2)
    rank, batch = FollowedRank(tmp_path, module, every=1000), torch.ones(3, 4)
    for _ in range(MOST_OPTIMIZERS + 3):
        rank.step(torch.optim.SGD(module.parameters(), lr=0.1), batch)
    assert steps_of_each(rank) == [("SGD", 1)] * MOST_OPTIMIZERS


def test_one_step_in_sixteen_is_timed_however_many_forwards_it_has(tmp_path: Path) -> None:
    """Each stands for as many others: with four forwards a step, every fourth one was timed and counted for sixteen."""
    module = nn.Linear(4, 2)
    rank, batch = FollowedRank(tmp_path, module, every=10_000), torch.ones(3, 4)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    rank.step(optimizer, batch)
    rank.step(optimizer, batch)  # the one that follows an audit
    timed = 0
    for _ in range(4 * SAMPLED):
        for _ in range(3):
            counted = rank.tracker.counted.forward(rank.model, [batch])
            if not counted:
                rank.tracker.forwards.outer(rank.model, [batch])
            rank.model(batch).sum().backward()
        timed += not counted
        rank.step(optimizer, batch)
    assert timed == 4
    rank.trace.close()


def test_the_settings_at_the_end_are_those_of_the_first_look_after_the_last_step() -> None:
    """A rank may load other ones afterwards."""
    optimizer, settings = torch.optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1), Settings()
    settings.grouped(optimizer)
    counts = StepsByOptimizer(settings)
    for made, (rate, moment) in enumerate(((0.1, "pass 1"), (0.2, "pass 2"))):
        optimizer.param_groups[0]["lr"] = rate
        counts.step(optimizer, made)
        counts.look(moment)
    optimizer.param_groups[0]["lr"] = 0.5
    counts.look("leave")
    (last,) = (one.last for one in counts.each)
    assert last is not None
    assert (last.steps, last.moment, last.settings["lr"]) == (2, "pass 2", "0.2")
    counts.step(optimizer, 2)
    assert counts.each[0].last is None, "not looked at since"
