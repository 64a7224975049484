"""`ddpdoctor top`: one snapshot without a terminal, the live view in one of 80 by 24."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.workflows.shared_status import SharedRows

DEADLINE_SECONDS = 60.0


def job(folder: Path, ranks: int, odd: int) -> None:
    """The rows of a job that hangs: all ranks but one wait."""
    rows = [
        RankStatus(
            rank=rank,
            host=f"node-{rank // 8}",
            pid=9_000_000 + rank,
            state="all_reduce #812" if rank != odd else "data loader",
            line="train.py:61",
            steps=270,
            idle_seconds=9.0,
            stack=("train.py:40 in next_batch",) if rank == odd else (),
            waits_for_peers=rank != odd,
        )
        for rank in range(ranks)
    ]
    for node in range(0, ranks, 8):
        SharedRows(folder).write(rows[node : node + 8])


def test_without_a_terminal_it_prints_all_ranks_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job(tmp_path, 16, 5)
    assert run(["top", "--case", str(tmp_path)]) == 0
    title, header, *rows = capsys.readouterr().out.splitlines()
    assert title == "ddpdoctor top  16 ranks  look at 5"
    assert header.split()[:3] == ["rank", "host", "pid"]
    assert len(rows) == 16
    assert [row.split()[1] for row in rows if row.startswith("▶")] == ["5"]


def test_a_place_where_nothing_runs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--case", str(tmp_path)]) == 3
    assert f"no `watch` writes to {tmp_path} now" in capsys.readouterr().err
    assert run(["top", "--case", str(tmp_path / "nowhere")]) == 2
    assert "is no directory" in capsys.readouterr().err
    assert run(["top", str(2**22 + 1)]) == 2
    assert "run `ddpdoctor top` without a process id" in capsys.readouterr().err


def test_64_ranks_in_a_terminal_of_80_by_24(tmp_path: Path) -> None:
    """The odd rank is in the title, keys sort and select, and q gives the terminal back."""
    job(tmp_path, 64, 40)
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(child)
    command = [sys.executable, "-m", "ddpdoctor", "top", "--case", str(tmp_path), "--every", "60"]
    environ = {**os.environ, "TERM": "xterm-256color"}
    environ.pop("COLUMNS", None)
    environ.pop("LINES", None)
    with subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=environ, start_new_session=True
    ) as view:
        try:
            shown = until(parent, r"q quit")
            assert "64 ranks  look at 40" in shown
            assert shown.count("all_reduce #812") == 20
            assert max(len(line) for line in shown.splitlines()) <= 80
            os.write(parent, b"s")
            assert "sorted by step" in until(parent, r"sorted by step.*q quit")
            os.write(parent, b"\x1b[B\x1b[B\r")
            assert "runs on node-0: run `ddpdoctor top` there" in until(parent, r"to see its stack")
            os.write(parent, b"s" * 4 + b"j" * 38)  # sorted by rank again, and rank 40 selected
            assert "train.py:40 in next_batch" in until(parent, r"sorted by rank.*train\.py:40 in next_batch.*q quit")
            os.write(parent, b"c")
            until(parent, r"asked the `watch` of every node for a case")
            assert (tmp_path / ".case-wanted").exists()
            os.write(parent, b"q")
            assert view.wait(timeout=DEADLINE_SECONDS) == 0
            assert termios.tcgetattr(child)[3] == before[3]
            assert not (tmp_path / ".case-wanted").exists()
        finally:
            view.kill()
            os.close(parent)
            os.close(child)


def until(terminal: int, pattern: str) -> str:
    """What the terminal showed, without escape sequences, until `pattern` came."""
    shown, deadline = "", time.monotonic() + DEADLINE_SECONDS
    while not re.search(pattern, shown, flags=re.DOTALL):
        assert time.monotonic() < deadline, shown
        data = os.read(terminal, 1 << 16).decode(errors="replace").replace("\r", "")
        shown += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", data)
    return shown
