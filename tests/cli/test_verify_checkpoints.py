"""`ddpdoctor verify-sync rank0.pt rank1.pt ...` as it is typed: exit codes and what is said of a wrong line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from tests.checkpoints.writing import write_pt


def test_files_that_differ_exit_with_1_and_json_names_the_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(write_pt(tmp_path / f"rank{rank}.pt", bump=1e-3 * (rank == 0))) for rank in range(3)]
    assert run(["verify-sync", "--format", "json", *files]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["ranks"]) == ("DDP519", [0])
    assert finding["measured"]["tensor"] == "0.weight"
    assert finding["measured"]["index"] == [5, 2]


@pytest.mark.parametrize(("ranks", "is_tied"), [(2, True), (3, False)])
def test_a_majority_is_only_advised_where_there_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranks: int, is_tied: bool
) -> None:
    files = [str(write_pt(tmp_path / f"rank{rank}.pt", bump=1e-3 * (rank == 0))) for rank in range(ranks)]
    run(["verify-sync", "--format", "json", *files])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert ("a checkpoint of the majority" not in finding["remedy"]) is is_tied


def test_equal_files_exit_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(write_pt(tmp_path / f"rank{rank}.pt")) for rank in range(2)]
    assert run(["verify-sync", *files]) == 0
    assert "compared  27 tensors" in capsys.readouterr().out


def test_a_case_of_checkpoints_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(write_pt(tmp_path / f"rank{rank}.pt", bump=1e-3 * (rank == 0))) for rank in range(3)]
    assert run(["verify-sync", "--case", str(tmp_path / "case.json"), *files]) == 1
    assert run(["diagnose", str(tmp_path / "case.json")]) == 1
    assert capsys.readouterr().out.count("DDP519") >= 2


WRONG = {
    ("rank0.pt",): "is one checkpoint: there is nothing to compare it with",
    ("rank0.pt", "rank7.pt"): "rank7.pt does not exist",
    ("rank0.pt", "train.py"): "train.py is not a checkpoint",
    ("rank0.pt", "rank1.pt", "--tolerance", "1e-6"): "put options first",
    ("--tolerance", "-1", "rank0.pt", "rank1.pt"): "--tolerance",
    ("--tolerance", "1e-6", "--nproc", "2", "train.py"): "works on checkpoints only",
    ("train.py", "rank0.pt", "rank1.pt"): "to compare checkpoints, leave the script out",
}


@pytest.mark.parametrize("line", WRONG, ids=" ".join)
def test_a_line_that_cannot_be_is_answered_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        write_pt(tmp_path / f"rank{rank}.pt")
    (tmp_path / "train.py").touch()
    assert run(["verify-sync", *line]) == 2
    assert WRONG[line] in capsys.readouterr().err
