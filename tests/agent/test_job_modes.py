"""Modes of the job see the operations of the job, and none of what the agent reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ddpdoctor.agent.inside.job_modes import dispatch_modes, function_modes, put_back, set_aside
from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank, Wrapper


class Operations(TorchDispatchMode):
    """Notes the name of each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Notes the name of each function."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def net() -> nn.Module:
    """Parameters large and small, and buffers."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 20_000))


def alone(module: nn.Module, steps: int) -> None:
    """The job of `FollowedRank.step` without a tracker."""
    model, optimizer, batch = Wrapper(module), torch.optim.AdamW(module.parameters()), torch.ones(3, 4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def rank_with_observers(folder: Path) -> FollowedRank:
    """A tracker whose observers are those of a rank."""
    rank = FollowedRank(folder, net())
    tracker = rank.tracker
    forwards, backwards, steps = tracker.forwards, tracker.backwards, tracker.steps
    for owner, names in ((forwards, "outer"), (backwards, "begins over"), (steps, "before after"), (tracker, "close")):
        for name in names.split():
            setattr(owner, name, rank.trace.observing(getattr(owner, name)))
    return rank


def followed(rank: FollowedRank, steps: int) -> None:
    """The same job, audited at every step."""
    optimizer, batch = torch.optim.AdamW(rank.model.parameters()), torch.ones(3, 4)
    for _ in range(steps):
        rank.step(optimizer, batch)
    rank.tracker.close()


def test_modes_of_the_job_see_nothing_of_the_agent(tmp_path: Path) -> None:
    rank, module = rank_with_observers(tmp_path), net()
    with Operations() as of_the_job, Functions() as calls_of_the_job:
        alone(module, 3)
    with Operations() as operations, Functions() as functions:
        followed(rank, 3)
    assert operations.seen == of_the_job.seen
    assert functions.seen == calls_of_the_job.seen
    first, *_ = steps = rank.written(Step)
    assert len(steps) == 3
    assert set(first.gradients.counts) == {1}
    local, reduced = (torch.frombuffer(bytearray.fromhex(one), dtype=torch.float64) for one in first.gradients[2:4])
    torch.testing.assert_close(local, reduced)


def test_a_default_device_is_no_reason_to_take_gradients_one_by_one(tmp_path: Path) -> None:
    rank = rank_with_observers(tmp_path)
    with torch.device("cpu"):
        followed(rank, 1)
        rank.trace.close()
        assert not rank.trace.is_seen
        with set_aside() as is_seen:
            assert not function_modes()
        assert not is_seen
        assert function_modes() == 1


def test_modes_are_back_for_code_of_the_job_and_after_an_error() -> None:
    def error_inside() -> None:
        with set_aside() as is_seen:
            assert (is_seen, dispatch_modes(), function_modes()) == (True, 0, 0)
            with put_back():
                assert (dispatch_modes(), function_modes()) == (2, 1)
                with set_aside():
                    assert (dispatch_modes(), function_modes()) == (0, 0)
                torch.ones(1)
            assert (dispatch_modes(), function_modes()) == (0, 0)
            raise ZeroDivisionError

    with Operations() as outer, Functions() as functions, Operations() as inner:
        with pytest.raises(ZeroDivisionError):
            error_inside()
        assert (dispatch_modes(), function_modes()) == (2, 1)
        assert outer.seen == inner.seen == ["aten.ones.default"]
        assert "ones" in functions.seen
