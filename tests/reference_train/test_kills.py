"""Killed at any moment, a job goes on from its last checkpoint and ends with the bits of one that was never killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.reference_train.forked import Death, exit_code, fork_ranks, kill
from tests.sampled import sampled

EVERY = 2  # steps between checkpoints
OPTIONS = ("--epochs", "2", "--checkpoint-every", str(EVERY), "--resume")  # 250 steps
DEADLINE_SECONDS = 120.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("by_the_clock", "in_a_checkpoint"), sampled([(8, 6), (32, 18)], lambda by_the_clock, _: by_the_clock == 8)
)
def test_kills_lose_nothing_but_the_steps_since_the_last_checkpoint(
    tmp_path: Path, by_the_clock: int, in_a_checkpoint: int
) -> None:
    whole = weights_of(run_to_the_end(tmp_path / "whole", tmp_path / "whole.jsonl"))
    dice = random.Random(1)
    moments = ["clock"] * by_the_clock + [*Death.PLACES] * (in_a_checkpoint // len(Death.PLACES))
    dice.shuffle(moments)
    folder, jobs, saved, half_written = tmp_path / "killed", 0, 0, 0
    while moments:
        jobs += 1
        log = tmp_path / f"{jobs}.jsonl"
        if finished_before(moments[-1], dice, folder, log):
            assert weights_of(log) == whole
            for path in folder.iterdir():
                path.unlink()
            saved = 0
            continue
        moments.pop()
        before, saved = saved, saved_step(folder)
        assert saved >= max(before, last_step(log) - EVERY)
        half_written += any(folder.glob(".*"))
    assert half_written >= in_a_checkpoint * 2 // 3
    assert weights_of(run_to_the_end(folder, tmp_path / "end.jsonl")) == whole
    assert sorted(path.name for path in folder.iterdir()) == ["best.pt", "last.pt"]


def run_to_the_end(folder: Path, log: Path) -> Path:
    """The log of a run that nobody kills."""
    with started(folder, log) as ranks:
        assert [exit_code(rank) for rank in ranks] == [0, 0]
    return log


def finished_before(moment: str, dice: random.Random, folder: Path, log: Path) -> bool:
    """Run the job and kill it at that moment; whether it came to its end before."""
    death = None if moment == "clock" else Death(moment, after=dice.randrange(12), share=dice.random())
    with started(folder, log, death) as ranks:
        if death is not None:
            return exit_code(ranks[0]) == 0
        if dice.random() < 0.8:  # else it may be killed while it starts
            wait_for_a_checkpoint(folder, ranks[0])
        wait([ranks[0].sentinel], timeout=dice.uniform(0, 0.8))
        return ranks[0].exitcode == 0 and exit_code(ranks[1]) == 0


@contextmanager
def started(folder: Path, log: Path, death: Death | None = None) -> Iterator[list[BaseProcess]]:
    """The ranks of the job; those that are left at the end are killed."""
    ranks = fork_ranks(
        "recipe", *OPTIONS, "--checkpoint-dir", str(folder), "--json-lines", str(log), ranks=2, fate=death
    )
    try:
        yield ranks
    finally:
        kill(ranks)


def wait_for_a_checkpoint(folder: Path, rank: BaseProcess) -> None:
    before, deadline = saved_at(folder), time.monotonic() + DEADLINE_SECONDS
    while saved_at(folder) == before and rank.is_alive() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert saved_at(folder) != before or rank.exitcode == 0


def saved_at(folder: Path) -> int:
    return (folder / "last.pt").stat().st_mtime_ns if (folder / "last.pt").exists() else 0


def saved_step(folder: Path) -> int:
    """The number of steps that are safe."""
    if not (folder / "last.pt").exists():
        return 0
    total: int = torch.load(folder / "last.pt", weights_only=True)["position"]["total"]
    return total


def events(log: Path, name: str) -> list[dict[str, Any]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [event for line in lines if line.endswith("}") and (event := json.loads(line))["event"] == name]


def last_step(log: Path) -> int:
    return max((event["step"] for event in events(log, "step")), default=0)


def weights_of(log: Path) -> list[str]:
    (end,) = events(log, "end")
    weights: list[str] = end["weights"]
    return weights
