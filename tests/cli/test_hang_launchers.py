"""`ddpdoctor hang` at a launcher without ranks. The launcher is a program with torchrun's name and functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.ranks import stacks
from ddpdoctor.ranks.stacks import NoStacks

ELASTIC = """
import time

def {function}():
    print("ready", flush=True)
    time.sleep(600)
"""
TORCHRUN = """
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "torch", "distributed", "elastic"))
from handler import {function}
{function}()
"""
Start = Callable[[str], int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a launcher that stands in this function of torchrun's, and returns its process."""
    running: list[subprocess.Popen[str]] = []

    def launcher(function: str) -> int:
        elastic = tmp_path / "torch" / "distributed" / "elastic"
        elastic.mkdir(parents=True)
        (elastic / "handler.py").write_text(ELASTIC.format(function=function))
        (tmp_path / "torchrun").write_text(TORCHRUN.format(function=function))
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "torchrun"), "--nnodes", "2", "train.py"], stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            stacks.py_spy(process.pid)
        except NoStacks as reason:
            if str(reason) == (forbidden := stacks.why_forbidden(process.pid)):
                pytest.skip(forbidden)
            raise
        return process.pid

    yield launcher
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("function", "state"),
    [
        ("next_rendezvous", "it waits in its rendezvous for the launchers of other nodes"),
        ("_exit_barrier", "its ranks on this host have ended; it waits for the launchers of the other nodes"),
        ("main", "it has not started them yet"),
    ],
)
def test_a_launcher_that_has_no_ranks_is_said_to_be_one(
    start: Start, capsys: pytest.CaptureFixture[str], function: str, state: str
) -> None:
    pid = start(function)
    assert run(["hang", str(pid)]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert f"torchrun (process {pid}) is a launcher that has no ranks on this host: {state}" in said
    assert "torchrun --nnodes 2 train.py" in said


def test_a_process_that_is_no_launcher_is_shown_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert run(["hang", str(other.pid)]) == 2
    finally:
        other.kill()
        other.communicate()
    said = " ".join(capsys.readouterr().err.split())
    assert f"process {other.pid} is neither a rank of a job nor its launcher" in said
    assert "input()" in said
