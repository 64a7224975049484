"""A checkpoint is whole or is not there, and belongs to its job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from checkpoint import Position, clear_leftovers, read, save
from train import BadInput

from tests.reference_train.forked import LittleSpace, exit_code, fork_ranks, kill

JOB = {"model": "digitnet", "world_size": 2}


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    save(tmp_path / "new" / "last.pt", {"job": JOB, "model": {"w": torch.arange(5)}})
    assert read(tmp_path / "new" / "last.pt", JOB)["model"]["w"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"model": "resnet9", "world_size": 2}, "is of another job: model 'digitnet' instead of 'resnet9'"),
        ({"model": "digitnet", "world_size": 4}, "is of another job: world_size 2 instead of 4"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused(tmp_path: Path, job: dict[str, object], says: str) -> None:
    save(tmp_path / "last.pt", {"job": JOB})
    with pytest.raises(BadInput, match=says):
        read(tmp_path / "last.pt", job)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("executed",)


def test_damaged_and_hostile_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "last.pt"
    save(path, {"job": JOB, "model": {"w": torch.zeros(100)}})
    whole = path.read_bytes()
    for content in (b"", b"x" * 50, whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=rf"last\.pt \({len(content)} bytes\) is not a checkpoint of this job"):
            read(path, JOB)
    torch.save(Evil(), path)
    with pytest.raises(BadInput, match="is not a checkpoint of this job"):
        read(path, JOB)
    assert "executed" not in capsys.readouterr().out


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write the checkpoint .*last\.pt: .*File exists"):
        save(tmp_path / "file" / "last.pt", {"job": JOB})


def test_what_a_killed_job_left_is_cleared(tmp_path: Path) -> None:
    (tmp_path / ".last.pt.123").write_bytes(b"half")
    (tmp_path / "last.pt").write_bytes(b"whole")
    clear_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]


def test_no_space_for_a_checkpoint_ends_all_ranks_with_one_clear_error(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    options = ("--max-steps", "3", "--batch-size", "8", "--checkpoint-dir", str(tmp_path / "kept"))
    little = LittleSpace(500_000)  # a checkpoint has 1.7 MB, and rank 0 writes it
    started = fork_ranks("recipe", *options, "--json-lines", str(log), ranks=2, fate=little, said=tmp_path)
    try:
        codes = [exit_code(rank) for rank in started]
    finally:
        kill(started)

    assert codes == [2, 2]
    refused = next(event for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == "refused")
    assert refused["reason"] == f"cannot write the checkpoint {tmp_path / 'kept'}/best.pt: [Errno 27] File too large"
    assert not any("Traceback" in (tmp_path / str(rank)).read_text() for rank in range(2))
    assert list((tmp_path / "kept").iterdir()) == []


def test_the_best_epochs_displace_worse_ones_and_not_equal_ones() -> None:
    position = Position()
    displaced = []
    for epoch, score in enumerate((5.0, 3.0, 4.0, 3.0, 1.0, 9.0), start=1):
        position.epoch = epoch
        displaced.append(position.rank(score, 2))
    assert displaced == [[], [], [1], [3], [4], None]
    assert position.best == [(1.0, 5), (3.0, 2)]


def test_an_epoch_that_is_tested_again_is_counted_once() -> None:
    position = Position(epoch=1)
    assert [position.rank(score, 2) for score in (2.0, 1.0)] == [[], []]
    assert position.best == [(1.0, 1)]


def test_the_k_best_checkpoints_are_kept(tmp_path: Path) -> None:
    kept, log = tmp_path / "kept", tmp_path / "log.jsonl"
    options = ("--epochs", "4", "--batch-size", "256", "--generated", "--checkpoint-dir", str(kept), "--keep-best", "2")
    started = fork_ranks("recipe", *options, "--json-lines", str(log), ranks=2, said=tmp_path)
    try:
        assert [exit_code(rank) for rank in started] == [0, 0]
    finally:
        kill(started)
    epochs = [event for line in log.read_text().splitlines() if (event := json.loads(line))["event"] == "epoch"]
    best, second = sorted(epochs, key=lambda event: (event["test_loss"], event["epoch"]))[:2]
    names = {"best.pt", "last.pt", *(f"best-epoch-{one['epoch']}.pt" for one in (best, second))}
    assert {path.name for path in kept.iterdir()} == names
    assert torch.load(kept / "best.pt", weights_only=True)["position"]["epoch"] == best["epoch"]
