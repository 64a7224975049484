"""TensorBoard's scalars and the curve hold what the log holds, and what cannot be written is refused before any training."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch.distributed as dist
from records import Records
from train import BadInput

from tests.reference_train.forked import exit_code, fork_ranks, kill


def records(**places: Path | None) -> Records:
    """Those of rank 0, with these places to write to."""
    return Records(10, None, done=0, **{"tensorboard": None, "plot": None, **places})


@pytest.fixture
def _rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: 0)


@pytest.mark.slow  # `.ci/run` installs TensorBoard for what is slow
@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_the_board_and_the_curve_show_what_the_log_says(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("matplotlib")
    log, board, plot = tmp_path / "log.jsonl", tmp_path / "board", tmp_path / "curve.png"
    options = ("--epochs", "2", "--batch-size", "800", "--json-lines", str(log))
    ranks = fork_ranks("recipe", *options, "--tensorboard", str(board), "--plot", str(plot), ranks=1)
    try:
        assert exit_code(ranks[0]) == 0
    finally:
        kill(ranks)

    epochs = [event for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == "epoch"]
    scalars = accumulator.EventAccumulator(str(board)).Reload()
    assert sorted(scalars.Tags()["scalars"]) == ["test/accuracy", "test/loss", "train/loss"]
    shown = [(point.step, point.value) for point in scalars.Scalars("test/accuracy")]
    assert shown == [(10, pytest.approx(epochs[0]["accuracy"])), (20, pytest.approx(epochs[1]["accuracy"]))]
    assert [point.value for point in scalars.Scalars("test/loss")] == pytest.approx([e["test_loss"] for e in epochs])
    assert [point.step for point in scalars.Scalars("train/loss")] == [10, 20]
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("_rank_0")
def test_a_board_without_the_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(BadInput, match=r"pip install 'ddpdoctor\[tensorboard\]'"):
        records(tensorboard=tmp_path).open()


@pytest.mark.usefixtures("_rank_0")
def test_a_curve_into_a_directory_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot write .*missing/curve\.png: .*missing is no directory"):
        records(plot=tmp_path / "missing" / "curve.png").open()


@pytest.mark.slow
@pytest.mark.usefixtures("_rank_0")
@pytest.mark.filterwarnings("ignore")  # TensorBoard's own
def test_a_board_into_a_file_is_refused_at_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write into --tensorboard .*/file"):
        records(tensorboard=tmp_path / "file").open()
