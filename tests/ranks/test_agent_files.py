"""What the agents' files tell of processes that join as one rank."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.ranks.agent_files import find_ranks, ranks_of_attempts


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that live until the test is over."""
    command = [sys.executable, "-c", "input()"]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    yield both
    for process in both:
        process.communicate()


def joins(directory: Path, pid: int, *, address: str, restart: int = 0) -> None:
    """The files of a process that joins as rank 1 of 3."""
    CallRing(str(directory / f"{pid}.ring"), rank=1, world_size=3, restart=restart)
    (directory / f"{pid}.texts").write_text(json.dumps(["Joining", 0, ["", address]]) + "\n")


def rivals(directory: Path) -> tuple[int, ...]:
    (found,) = find_ranks(directory)
    return found.joining(Joining(called=True)).rivals


def test_two_living_processes_that_join_as_one_rank_are_rivals(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """`rank=min(rank, 1)`: the later one is the rank, and the other one its rival."""
    one, other = processes
    joins(tmp_path, one.pid, address="localhost:1")
    joins(tmp_path, other.pid, address="localhost:1")

    (found,) = find_ranks(tmp_path)

    assert {found.pid, *rivals(tmp_path)} == {one.pid, other.pid}


@pytest.mark.parametrize(("address", "restart"), [("localhost:2", 0), ("localhost:1", 1)])
def test_a_process_of_another_job_or_of_a_later_start_is_none(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]], address: str, restart: int
) -> None:
    one, other = processes
    joins(tmp_path, one.pid, address="localhost:1")
    joins(tmp_path, other.pid, address=address, restart=restart)

    assert not rivals(tmp_path)


def test_a_process_that_has_ended_is_none(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    one, other = processes
    joins(tmp_path, one.pid, address="localhost:1")
    joins(tmp_path, other.pid, address="localhost:1")
    one.communicate()
    other.communicate()

    assert not rivals(tmp_path)


def test_the_processes_of_each_attempt_are_kept_apart(tmp_path: Path) -> None:
    joins(tmp_path, 11, address="localhost:1")
    joins(tmp_path, 22, address="localhost:1", restart=2)

    pids = {number: [agent.pid for agent in attempt] for number, attempt in ranks_of_attempts(tmp_path).items()}

    assert pids == {0: [11], 2: [22]}
