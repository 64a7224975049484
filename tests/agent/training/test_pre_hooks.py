"""Gradients are read after the hooks that the job has put before its optimizer's step, and these hooks work as without us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer as optimizers

from ddpdoctor.agent.inside.schema.hardware_records import Integrity
from ddpdoctor.agent.inside.schema.step_records import Step
from tests.agent.followed_rank import FollowedRank

BATCH = torch.ones(3, 4)


class Job:
    """A rank that has made no step yet, and its optimizer."""

    def __init__(self, folder: Path, *, every: int = 1) -> None:
        folder.mkdir(exist_ok=True)
        self.module = nn.Linear(4, 2)
        self.rank = FollowedRank(folder, self.module, every=every)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)

    def step(self) -> None:
        self.rank.step(self.optimizer, BATCH)

    def changed_after_the_backward(self) -> list[bool]:
        """For each step that was audited, whether gradients were other ones when the optimizer began."""
        integrity, steps = self.rank.written(Integrity), self.rank.written(Step)
        return [one.reduced != step.gradients.digests for one, step in zip(integrity, steps, strict=True)]


@pytest.fixture
def hooks_of_all() -> Iterator[None]:
    """What is hooked to all optimizers in a test is taken off."""
    before = dict(optimizers._global_optimizer_pre_hooks)
    yield
    for key in set(optimizers._global_optimizer_pre_hooks) - set(before):
        del optimizers._global_optimizer_pre_hooks[key]


def halves(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad.mul_(0.5)


def test_what_a_hook_makes_of_gradients_is_seen(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.step()
    job.optimizer.register_step_pre_hook(halves)
    job.optimizer.register_step_pre_hook(lambda *_: None)
    job.step()
    job.step()
    assert job.changed_after_the_backward() == [False, True, True]


@pytest.mark.usefixtures("hooks_of_all")
def test_of_a_hook_of_all_optimizers_too(tmp_path: Path) -> None:
    job, other = Job(tmp_path / "job"), Job(tmp_path / "other")
    optimizers.register_optimizer_step_pre_hook(lambda *_: None)
    optimizers.register_optimizer_step_pre_hook(halves)
    job.step()
    other.optimizer.register_step_pre_hook(lambda *_: None)
    other.step()
    assert job.changed_after_the_backward() == other.changed_after_the_backward() == [True]


def test_hooks_are_the_jobs_again_after_each_step(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.optimizer.register_step_pre_hook(halves)
    handle = job.optimizer.register_step_pre_hook(lambda *_: None)
    hooks = dict(job.optimizer._optimizer_step_pre_hooks)
    job.step()
    assert dict(job.optimizer._optimizer_step_pre_hooks) == hooks
    handle.remove()
    job.step()
    assert list(job.optimizer._optimizer_step_pre_hooks.values()) == [halves]
    assert job.changed_after_the_backward() == [True, True]


def test_the_last_hook_may_remove_itself_or_add_one(tmp_path: Path) -> None:
    job = Job(tmp_path)

    def once(*given: Any) -> None:
        handle.remove()
        halves(*given)
        job.optimizer.register_step_pre_hook(adds)

    def adds(*_given: Any) -> None:
        job.optimizer.register_step_pre_hook(halves)

    handle = job.optimizer.register_step_pre_hook(once)
    for _ in range(2):
        job.step()
    assert list(job.optimizer._optimizer_step_pre_hooks.values()) == [adds, halves]
    assert job.changed_after_the_backward() == [True, False]


def test_a_hook_that_raises_leaves_the_step_to_the_job(tmp_path: Path) -> None:
    job, fails = Job(tmp_path), [True, False]

    def may_fail(*_given: Any) -> None:
        if fails.pop(0):
            raise KeyError("scale")

    job.optimizer.register_step_pre_hook(may_fail)
    job.optimizer.register_step_pre_hook(halves)
    with pytest.raises(KeyError, match="scale"):
        job.step()
    job.step()
    assert job.rank.trace.alive
    assert list(job.optimizer._optimizer_step_pre_hooks.values()) == [may_fail, halves]
    assert job.changed_after_the_backward() == [True]


@pytest.mark.parametrize("every", [1, 1000])
def test_a_hook_may_give_the_step_another_closure(every: int, tmp_path: Path) -> None:
    job, called = Job(tmp_path, every=every), []

    def closure() -> float:
        called.append(True)
        return 0.0

    gives: Callable[..., Any] = lambda optimizer, args, kwargs: ((optimizer, closure), kwargs)  # noqa: E731
    job.optimizer.register_step_pre_hook(gives)
    for _ in range(3):
        job.step()
    assert len(called) == 3
    assert {step.closure for step in job.rank.written(Step)} <= {True}


def test_what_is_no_pair_is_reported_by_pytorch(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.optimizer.register_step_pre_hook(lambda *_: 5)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        job.step()
    assert job.rank.trace.alive
    job.rank.trace.close()
