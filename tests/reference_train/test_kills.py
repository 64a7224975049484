"""Killed at any moment, a job goes on from its last checkpoint and ends with the bits of one that was never killed."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
import torch

from tests.reference_train.launching import ended, kill, start_ranks

KILLS, RANKS = 50, 2
OPTIONS = ("--epochs", "40", "--batch-size", "1000", "--lr", "0.05", "--checkpoint-every", "1", "--resume")  # 320 steps


def steps_of(log: Path) -> int:
    """The last step that the job spoke of."""
    lines = log.read_text().splitlines() if log.exists() else []
    steps = [event["step"] for line in lines if line.endswith("}") and (event := json.loads(line))["event"] == "step"]
    return max(steps, default=0)


def weights_of(log: Path) -> list[str]:
    return next(
        event["weights"] for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == "end"
    )


@pytest.mark.matrix
@pytest.mark.timeout(1500)
def test_fifty_kills_lose_nothing_but_the_steps_since_the_last_checkpoint(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    for code, _, said in ended(
        start_ranks(
            "recipe.py", *OPTIONS, "--checkpoint-dir", str(tmp_path / "whole"), "--json-lines", str(whole), ranks=RANKS
        ),
        seconds=300,
    ):
        assert code == 0, said
    dice = random.Random(1)
    kills, completed, saved, folder = 0, 0, 0, tmp_path / "killed"
    while kills < KILLS:
        log = tmp_path / f"log{kills}-{completed}.jsonl"
        ranks = start_ranks(
            "recipe.py", *OPTIONS, "--checkpoint-dir", str(folder), "--json-lines", str(log), ranks=RANKS
        )
        try:
            wait_for_a_step(log, ranks)
            deadline = time.monotonic() + dice.uniform(0, 1.5)
            while time.monotonic() < deadline and ranks[0].poll() is None:
                time.sleep(0.001)
            finished = ranks[0].poll() == 0
        finally:
            kill(ranks)
        if finished:
            assert weights_of(log) == weights_of(whole)
            for path in folder.iterdir():
                path.unlink()
            completed, saved = completed + 1, 0
            continue
        kills += 1
        total = torch.load(folder / "last.pt", weights_only=True)["position"]["total"]
        assert total >= saved
        assert total >= steps_of(log) - 1  # every step is saved before the next is made
        saved = total
    log = tmp_path / "end.jsonl"
    for code, _, said in ended(
        start_ranks("recipe.py", *OPTIONS, "--checkpoint-dir", str(folder), "--json-lines", str(log), ranks=RANKS),
        seconds=300,
    ):
        assert code == 0, said
    assert weights_of(log) == weights_of(whole)


def wait_for_a_step(log: Path, ranks: list) -> None:
    deadline = time.monotonic() + 90
    while not steps_of(log) and time.monotonic() < deadline and ranks[0].poll() is None:
        time.sleep(0.02)
    assert steps_of(log) or ranks[0].poll() == 0, ranks[0].stderr.read()
