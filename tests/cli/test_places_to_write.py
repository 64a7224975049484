"""A file that cannot be written is named before a long command works, and an earlier case is not overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from tests.waiting import PROGRAM_SECONDS

WATCH = (sys.executable, "-m", "ddpdoctor", "watch")
COMMANDS = {
    "watch": ("watch", "{}", "--", "touch", "started"),
    "verify-sync": ("verify-sync", "--nproc", "2", "{}"),
    "train": ("train", "--nproc", "2", "{}"),
    "smoke": ("smoke", "--nproc", "2", "{}"),
    "allreduce-bench": ("allreduce-bench", "--nproc", "2", "{}"),
}
PLACES = [
    *((command, option) for command in COMMANDS for option in ("--output", "--case")),
    ("watch", "--metrics"),
    ("allreduce-bench", "--save"),
]


def watch(folder: Path, *options: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*WATCH, *options, "--", "touch", "started"],
        cwd=folder, capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False, env={**os.environ, **(environ or {})},
    )  # fmt: skip


@pytest.mark.parametrize(("command", "option"), PLACES)
def test_a_place_that_cannot_be_written_is_named_before_the_work(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    words = [part for word in COMMANDS[command] for part in ([option, "file/x"] if word == "{}" else [word])]
    assert run(words) == 2
    assert capfd.readouterr().err == (
        f"ddpdoctor: {option} file/x cannot be written: Not a directory\n"
        f"  give a path in a writable directory: `{option} x`\n"
    )
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_of_a_directory_that_takes_no_file_another_one_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir("/proc")
    assert run(["watch", "--case", "x", "--", "true"]) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == f"  give a path in a writable directory: `--case {Path(tempfile.gettempdir()) / 'x'}`"


def test_ranks_that_write_nothing_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 of a launch does not refuse what only rank 0 writes."""
    from ddpdoctor.cli.options import ReportOptions
    from ddpdoctor.cli.places_to_write import check_places

    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "file").touch()
    check_places(ReportOptions(output=tmp_path / "file" / "report"))
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("case", "file", "other"),
    [("case", "case/case.json", "case-2"), ("it s.json", "it s.json", "it s-2.json")],
)
def test_an_earlier_case_stays(case: str, file: str, other: str, tmp_path: Path) -> None:
    first = watch(tmp_path, "--case", case)
    assert first.returncode == 0
    shown = f"'{case}'" if " " in case else case
    last = first.stderr.splitlines()[-1]
    assert last == f"ddpdoctor: evidence saved in {case}; `ddpdoctor diagnose {shown}` reads it on any machine"
    written = (tmp_path / file).read_bytes()
    (tmp_path / "started").unlink()

    again = watch(tmp_path, "--case", case)

    assert again.returncode == 2
    other = f"'{other}'" if " " in other else other
    assert again.stderr == (
        f"ddpdoctor: --case {case} holds an earlier case, {file}, which this run would overwrite\n"
        f"  name another place: `--case {other}`; or remove that one: `rm {shown if ' ' in case else file}`\n"
    )
    assert not (tmp_path / "started").exists()
    assert (tmp_path / file).read_bytes() == written


def test_nodes_of_one_job_and_a_directory_with_something_else_are_not_refused(tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "node-with-rank-8.json").write_text("{}")
    assert watch(tmp_path, "--case", "case").returncode == 0
    assert (tmp_path / "case" / "case.json").exists()
    task = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7"}
    assert watch(tmp_path, "--case", "case", environ=task).returncode == 0


def test_a_quiet_watch_of_a_healthy_job_says_nothing(tmp_path: Path) -> None:
    ended = watch(tmp_path, "--quiet", "--case", "case")
    assert "Evidence" not in ended.stderr
