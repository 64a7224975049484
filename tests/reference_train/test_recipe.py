"""The options of a production job, in real ranks: they train, end together, and go on where they ended."""

from __future__ import annotations

import json
import signal
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.reference_train import forked
from tests.reference_train.launching import ended, kill, start_ranks
from tests.sampled import sampled
from tests.waiting import within


def events(log: Path, name: str) -> list[dict[str, Any]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [event for line in lines if line.endswith("}") and (event := json.loads(line))["event"] == name]


def train(log: Path, *arguments: str, ranks: int = 2) -> dict[str, Any]:
    """The last event of a run that ends well."""
    started = forked.fork_ranks("recipe", "--json-lines", str(log), *arguments, ranks=ranks)
    try:
        assert [forked.exit_code(rank, seconds=200) for rank in started] == [0] * ranks
    finally:
        forked.kill(started)
    (end,) = events(log, "end")
    return end


@pytest.mark.parametrize(
    "options",
    sampled(
        [
            ["--uneven", "join", "--batch-size", "2000"],
            ["--uneven", "weigh", "--accumulate", "4", "--clip-grad", "1"],
            ["--amp", "bf16", "--hook", "fp16", "--static-graph", "--no-bucket-view"],
            ["--dataset", "cifar10", "--norm", "group", "--workers", "2", "--find-unused", "--accumulate", "2"],
            ["--hook", "powersgd", "--bucket-mb", "0.1"],
            ["--dataset", "cifar10", "--model", "resnet18", "--batch-size", "8"],
            ["--dtype", "float64", "--patience", "1"],
        ],
        lambda options: "resnet18" not in options,  # a minute of its own, for one more network
        name=" ".join,
    ),
)
def test_replicas_stay_equal_with_every_option(tmp_path: Path, options: list[str]) -> None:
    end = train(tmp_path / "log.jsonl", "--max-steps", "4", "--epochs", "1", *options)
    assert len(set(end["weights"])) == 1


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("options", "ranks"),
    sampled(
        product((["--clip-grad", "1"], ["--dataset", "cifar10", "--accumulate", "2", "--bucket-mb", "0.1"]), (2, 3)),
        lambda options, ranks: ranks == (3 if "--clip-grad" in options else 2),
    ),
)
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, ranks: int, options: list[str]) -> None:
    options = [*options, "--batch-size", "72"]
    whole = train(tmp_path / "whole.jsonl", "--max-steps", "20", *options, ranks=ranks)
    kept = ("--checkpoint-dir", str(tmp_path / "kept"), *options)
    train(tmp_path / "first.jsonl", "--max-steps", "7", *kept, ranks=ranks)
    resumed = train(tmp_path / "second.jsonl", "--max-steps", "20", "--resume", *kept, ranks=ranks)

    assert resumed["weights"] == whole["weights"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_to_one_rank_saves_and_ends_all(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "log.jsonl"
    ranks = start_ranks(
        "recipe.py", "--epochs", "500", "--checkpoint-dir", str(tmp_path / "kept"), "--json-lines", str(log), ranks=2
    )
    try:
        assert within(lambda: events(log, "step"), seconds=90)
        ranks[1].send_signal(number)
        assert [code for code, _, _ in ended(ranks, seconds=60)] == [0, 0]
    finally:
        kill(ranks)
    (stopped,) = events(log, "stopped")
    assert stopped["step"] % 8 == 0
    assert (tmp_path / "kept" / "last.pt").exists()
