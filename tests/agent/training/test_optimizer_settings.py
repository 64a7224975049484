"""Which of the user's lines gave an optimizer the settings with which it steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training.optimizer_settings import SCHEDULES, Settings
from ddpdoctor.agent.inside.training.step_counts import StepsByOptimizer


def here() -> int:
    return sys._getframe(1).f_lineno


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings that follow torch until the test is over."""
    owners = (torch.optim.Optimizer, *SCHEDULES)
    before = [
        {name: vars(owner).get(name) for name in ("step", "add_param_group", "load_state_dict")} for owner in owners
    ]
    rank = Rank(str(tmp_path))
    rank.place((), {})
    followed = Settings()
    followed.install(TraceWriter(rank))
    yield followed
    for owner, kept in zip(owners, before, strict=True):
        for name, method in kept.items():
            if method is not None:
                setattr(owner, name, method)


def lines(settings: Settings, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    return {name: line for (_, line, _), names in settings.now(optimizer)[1] for name in names}


def test_each_setting_has_the_line_that_gave_it(settings: Settings) -> None:
    optimizer, makes = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), here()
    schedule = ReduceLROnPlateau(optimizer, patience=0)
    schedule.step(1.0)
    assert lines(settings, optimizer).items() >= {"lr": makes, "momentum": makes}.items()

    schedule.step(2.0), (falls := here())
    assert lines(settings, optimizer).items() >= {"lr": falls, "momentum": makes}.items()

    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]}), (adds := here())
    assert lines(settings, optimizer).items() >= {"lr[0]": falls, "lr[1]": adds, "momentum[0]": makes}.items()


def test_a_setting_that_was_written_since_has_none(settings: Settings) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    optimizer.param_groups[0]["lr"] = 0.5
    assert "lr" not in lines(settings, optimizer)
    assert settings.of(optimizer)["lr"] == "0.5"


def test_state_is_loaded_until_the_next_step(settings: Settings) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert settings.loaded(optimizer) is None
    optimizer.load_state_dict(optimizer.state_dict()), (loads := here())
    found = settings.loaded(optimizer)
    assert found is not None
    assert found[1] == loads
    settings.stepped(optimizer)
    assert settings.loaded(optimizer) is None


def test_a_setting_that_a_line_was_seen_to_write_has_that_line(settings: Settings) -> None:
    optimizer, makes = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), here()
    optimizer.param_groups[0]["momentum"] = 0.5
    before = settings.options()
    optimizer.param_groups[0]["lr"] = 0.5
    settings.written(SourceLine("train.py", 7, "main"), before)
    assert "momentum" not in lines(settings, optimizer)
    optimizer.param_groups[0]["momentum"] = 0
    assert lines(settings, optimizer).items() >= {"lr": 7, "momentum": makes}.items()

    optimizer.param_groups[0]["lr"] = 0.25
    assert lines(settings, optimizer)["lr"] == 7

    optimizer.param_groups[0]["lr"] = 0.1  # as it was made: that line has written others, and may be this one's
    assert lines(settings, optimizer)["lr"] == 7

    schedule = ReduceLROnPlateau(optimizer, patience=0)
    schedule.step(1.0)
    schedule.step(2.0), (falls := here())
    assert lines(settings, optimizer)["lr"] == falls


def test_the_first_step_of_each_optimizer_is_kept_with_its_settings(settings: Settings) -> None:
    first, other = (torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr) for lr in (0.1, 0.2))
    counts = StepsByOptimizer(settings)
    for made, optimizer in enumerate((first, first, other)):
        counts.step(optimizer, made)
    other.param_groups[0]["lr"] = 0.3
    assert [(one.name, one.steps, one.began, one.settings["lr"]) for one in counts.each] == [
        ("SGD", 2, 0, "0.1"),
        ("SGD", 1, 2, "0.2"),
    ]
    counts.forget()
    assert counts.each == []
