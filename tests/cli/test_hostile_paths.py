"""Paths and streams that no command may take for a bug of its own: very long names, very deep folders, a closed stdout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor import cli
from ddpdoctor.source.folders import folders_below
from ddpdoctor.workflows.diagnose import _files
from tests.waiting import PROGRAM_SECONDS

LEVELS = 1500
LONG = "a" * 5000
QUICK = ("lint", "lint --baseline", "diagnose", "diagnose x --trace", "verify-sync x", "top --case")
OTHERS = (
    "lint --output", "lint --write-baseline", "diagnose --case", "verify-sync --case", "train --output", "env --case",
    "env --output",
    "hang --case", "port --case", "smoke --path", "init ddp --output", "watch --metrics", "allreduce-bench --compare",
)  # fmt: skip
TAKE_A_PATH = (*QUICK, *(pytest.param(words, marks=pytest.mark.slow) for words in OTHERS))


@pytest.mark.parametrize("words", TAKE_A_PATH)
def test_a_name_that_is_too_long_is_an_error_of_the_user(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    program = ["--", "true"] if words.startswith("watch") else []
    assert cli.run([*words.split(), LONG, *program]) in {1, 2, 3}
    said = capfd.readouterr()
    assert "bug in ddpdoctor" not in said.err
    assert "Traceback" not in said.err + said.out


def test_too_little_memory_is_no_bug_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ddpdoctor.workflows.diagnose.gather", too_much)
    assert cli.run(["diagnose", str(tmp_path)]) == 3
    said = capfd.readouterr().err
    assert "the memory does not suffice for what was given" in said
    assert "give fewer or smaller files" in said
    assert "bug in ddpdoctor" not in said


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder 1,500 levels deep with a program and a log in the innermost."""
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    for name, text in (("train.py", b"import torch\n"), ("job.log", b"RuntimeError: x\n")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=at)
        os.write(file, text)
        os.close(file)
    os.close(at)
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # shutil recurses


@pytest.mark.parametrize("command", ["lint", "diagnose"])
def test_folders_nested_deeper_than_pythons_stack(command: str, deep: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([command, str(deep)]) in {0, 1, 3}
    assert "bug in ddpdoctor" not in capfd.readouterr().err
    assert [folder for folder, files in folders_below(deep) if files]
    assert len([*_files(deep)]) == 2


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "x.py").touch()
    assert [*folders_below(tmp_path)] == [(tmp_path, ["loop", "x.py"])]


@pytest.mark.parametrize("command", ["lint .", "port", "config"])
def test_a_stdout_that_is_closed_from_the_start(command: str, tmp_path: Path) -> None:
    """`>&-`: nobody wants the output; the exit code is what it would be."""
    ran = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", *command.split()],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.close(1),
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ran.returncode in {0, 1, 3}, ran.stderr
    assert "bug in ddpdoctor" not in ran.stderr


@pytest.mark.parametrize("words", [["lint", ""], ["diagnose", "a.log", ""], ["port", "--output", ""]], ids=" ".join)
def test_an_empty_text_is_no_path(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """`lint "$FILES"` without a value would read the working directory, and `lint --fix` change it."""
    assert cli.run(words) == 2
    assert "an empty text is no path" in capfd.readouterr().err
