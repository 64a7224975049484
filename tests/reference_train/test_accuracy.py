"""N ranks reach what one process reaches: the bands of ddpdoctor/analysis/performance/reference_accuracy.py."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddpdoctor.analysis.performance.reference_accuracy import least_accuracy
from tests.reference_train.forked import exit_code, fork_ranks, kill
from tests.sampled import sampled

DATA = Path(os.environ.get("DDPDOCTOR_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


def check_that_ranks_land(program: str, *options: str, ranks: int, log: Path, seconds: float) -> None:
    """Train to the end; every rank has the same weights, and they are as good as the band asks."""
    started = fork_ranks(program, "--json-lines", str(log), *options, ranks=ranks)
    try:
        assert [exit_code(rank, seconds=seconds) for rank in started] == [0] * ranks
    finally:
        kill(started)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    end, epochs = events[-1], sum(event["event"] == "epoch" for event in events)
    least = least_accuracy(end["dataset"], end["model"], epochs)
    assert least is not None
    assert end["accuracy"] >= least
    assert len(set(end["weights"])) == 1


@pytest.mark.parametrize(
    ("program", "ranks"),
    sampled(
        [("train", 3), ("train", 4), ("recipe", 2), ("recipe", 4)],
        lambda program, ranks: ranks == (4 if program == "train" else 2),
    ),
)
def test_ranks_land_in_the_band_of_the_embedded_digits(tmp_path: Path, program: str, ranks: int) -> None:
    check_that_ranks_land(program, ranks=ranks, log=tmp_path / "log.jsonl", seconds=300)


@pytest.mark.matrix
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize(
    ("dataset", "folder", "epochs"),
    [("mnist", "MNIST/raw", "3"), ("cifar10", "cifar-10-batches-bin", "4")],
)
def test_ranks_land_in_the_band_of_real_data(
    tmp_path: Path, dataset: str, folder: str, epochs: str, ranks: int
) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"no {dataset} in {DATA / folder}")
    options = ("--dataset", dataset, "--data-dir", str(DATA / folder), "--epochs", epochs)
    check_that_ranks_land("recipe", *options, ranks=ranks, log=tmp_path / "log.jsonl", seconds=3000)
