"""What a rank writes down of its optimizer when its process ends."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.final_records import End, LastState
from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank


def last_states(folder: Path, *, optimizers: int = 1, change: Any = None) -> tuple[FollowedRank, list[LastState]]:
    torch.manual_seed(0)
    followed = FollowedRank(folder, nn.Linear(4, 2))
    made = [torch.optim.Adam(followed.model.parameters()) for _ in range(optimizers)]
    for one in made:
        followed.tracker.replica.settings.grouped(one)
        for _ in range(3):
            followed.step(one, torch.ones(3, 4))
    if change is not None:
        change(made[0])
    followed.tracker.close()
    assert followed.trace.alive
    return followed, followed.written(LastState)


def test_the_state_after_the_last_step_is_written_down(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    followed, (last,) = last_states(tmp_path)
    assert (last.step, last.shadowed, len(last.names)) == (3, 0, 6)
    before = followed.written(Step)[-1].stepping.state
    assert last.digests != before.digests

    def flip(optimizer: torch.optim.Adam) -> None:
        next(iter(optimizer.state.values()))["exp_avg"].view(torch.int32)[0, 0] ^= 1

    _, (flipped,) = last_states(tmp_path / "other", change=flip)
    differ = [flipped.digests[at : at + 16] != last.digests[at : at + 16] for at in range(0, 16 * 6, 16)]
    assert sum(differ) == 1


def test_state_of_an_optimizer_that_is_gone_is_what_it_was_when_the_rank_left_the_group(tmp_path: Path) -> None:
    followed = FollowedRank(tmp_path, nn.Linear(4, 2))

    def train(*, then_leaves: bool) -> None:
        optimizer = torch.optim.Adam(followed.model.parameters())
        followed.tracker.replica.settings.grouped(optimizer)
        followed.step(optimizer, torch.ones(3, 4))
        if then_leaves:
            followed.tracker.leaves()

    train(then_leaves=True)
    gc.collect()
    followed.tracker.close()
    assert [one.step for one in followed.written(LastState)] == [1]


@pytest.mark.parametrize("optimizers", [0, 2])
def test_of_no_optimizer_and_of_several_nothing_is_said(tmp_path: Path, optimizers: int) -> None:
    followed, states = last_states(tmp_path, optimizers=optimizers)
    assert states == []
    assert len(followed.written(End)) == 1


def test_state_that_the_program_has_taken_apart_ends_nothing(tmp_path: Path) -> None:
    def take_apart(optimizer: torch.optim.Adam) -> None:
        for state in optimizer.state.values():
            state["exp_avg"] = state["exp_avg"].to("meta")

    followed, _ = last_states(tmp_path, change=take_apart)
    assert len(followed.written(End)) == 1


def clear(optimizer: torch.optim.Adam) -> None:
    for state in optimizer.state.values():
        state["exp_avg"].zero_()
        state["exp_avg_sq"].zero_()


def put_others(optimizer: torch.optim.Adam) -> None:
    for state in optimizer.state.values():
        state.update({name: tensor.clone() for name, tensor in state.items()})


@pytest.mark.parametrize("change", [clear, put_others])
def test_state_that_was_written_after_the_last_step_is_said_to_be(tmp_path: Path, change: Any) -> None:
    (tmp_path / "other").mkdir()
    _, (untouched,) = last_states(tmp_path)
    _, (written,) = last_states(tmp_path / "other", change=change)
    assert (untouched.later, written.later) == (0, 1)
