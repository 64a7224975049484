"""`ddpdoctor top --case` beside two `watch` on two hosts (each in a host name of its own): rows, stacks and a case of both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.workflows.shared_case import answers, ask_for_case
from ddpdoctor.workflows.shared_status import read_statuses
from tests.cli.test_watch_nodes import COLLECTIVE, RANK
from tests.waiting import within

UNSHARED = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')
DEADLINE_SECONDS = 60.0


def why_not() -> str:
    """Why a host name of its own cannot be given to a process here."""
    try:
        tried = subprocess.run([*UNSHARED, "a", "true"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no unshare: {error}"
    return tried.stderr if tried.returncode else ""


pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or bool(why_not()), reason=why_not() or "needs root"),
]


@contextmanager
def two_hosts(folder: Path) -> Iterator[None]:
    """A hanging job under a `watch` on each of two hosts: rank 1 sleeps, rank 0 waits for it."""
    (folder / "train.py").write_text(RANK)
    (folder / "torch" / "distributed").mkdir(parents=True)
    (folder / "torch" / "distributed" / "distributed_c10d.py").write_text(COLLECTIVE)
    watch = (sys.executable, "-m", "ddpdoctor", "watch", "--stall-after", "300", "--case", str(folder / "case"), "--")
    started = []
    for node in (0, 1):
        place = {"RANK": str(node), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
        job = (*UNSHARED, f"node-{node}", *watch, sys.executable, str(folder / "train.py"), "600")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(job, env={**os.environ, **place}, start_new_session=True, **quiet))
    try:
        yield
    finally:
        for each in started:
            each.send_signal(signal.SIGTERM)
        for each in started:
            each.wait(DEADLINE_SECONDS)


def test_both_hosts_are_shown_and_save_a_case_of_the_hang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = tmp_path / "case"
    with two_hosts(tmp_path):
        stands = within(lambda: any(one.state == "sleeping" for one in read_statuses(shared)))  # only then: stacks
        assert stands, read_statuses(shared)
        assert run(["top", "--case", str(shared)]) == 0
        title, header, *rows = capsys.readouterr().out.splitlines()
        assert title == "ddpdoctor top  2 ranks"
        assert header.split()[:5] == ["rank", "host", "pid", "state", "line"]
        assert [row.split()[:2] for row in rows] == [["0", "node-0"], ["1", "node-1"]]
        assert "sleeping" in rows[1]
        assert "train.py:11" in rows[1]
        (sleeper,) = (one for one in read_statuses(shared) if one.rank == 1)
        assert f"{tmp_path}/train.py:11 in fetch" in sleeper.stack
        folder = ask_for_case(shared)
        assert within(lambda: answers(folder) >= 2)
        assert run(["diagnose", str(folder)]) == 1
        assert "DDP307 rank-stuck-outside-collective: rank 1 in fetch" in capsys.readouterr().out
    assert not [*shared.glob(".node*.status")]
