"""Ranks that mp.spawn started have the numbers that it gave them, also when an earlier one has ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks import spawned_numbers
from ddpdoctor.ranks.spawned_numbers import numbered
from ddpdoctor.ranks.target import Target

JOB = RunningJob(
    name="spawned by process 10",
    world_size=2,
    targets=(Target(rank=0, pid=12), Target(rank=1, pid=13)),
    command="python train.py",
    environ={},
    guessed=True,
    spawned_by=10,
)


def stacks(monkeypatch: pytest.MonkeyPatch, numbers: dict[int, int]) -> None:
    def integers_of(pids: Sequence[int], *, file: str, function: str, name: str) -> dict[int, int]:
        assert file.endswith("/spawn.py")
        assert (function, name) in {("_wrap", "i"), ("start_processes", "nprocs")}
        return {pid: numbers[pid] for pid in pids if pid in numbers}

    monkeypatch.setattr(spawned_numbers, "integers_of", integers_of)


def test_the_ranks_have_the_numbers_of_their_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks(monkeypatch, {10: 4, 12: 3, 13: 1})
    job = numbered(JOB)
    assert [(target.rank, target.pid) for target in job.targets] == [(1, 13), (3, 12)]
    assert (job.world_size, job.guessed, job.spawned_by) == (4, False, 10)


def test_a_parent_that_does_not_wait_for_them_tells_nothing_of_ranks_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stacks(monkeypatch, {12: 1, 13: 2})
    job = numbered(JOB)
    assert [target.rank for target in job.targets] == [1, 2]
    assert (job.world_size, job.spawned_by) == (3, None)


@pytest.mark.parametrize("numbers", [{10: 2, 12: 0}, {10: 2, 12: 1, 13: 1}, {}], ids=["one", "twice", "none"])
def test_without_the_numbers_of_all_they_stay_guessed(monkeypatch: pytest.MonkeyPatch, numbers: dict[int, int]) -> None:
    stacks(monkeypatch, numbers)
    assert numbered(JOB) == JOB
