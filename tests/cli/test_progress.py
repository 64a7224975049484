"""Progress is shown on a terminal, as one line a stage in CI, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tests.waiting import PROGRAM_SECONDS

PROGRAM = """
from ddpdoctor.cli.progress import progress
with progress("first") as told:
    told.update("a detail", done=1, total=2)
    told.stage("second")
print("report")
"""


def run(**environ: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**plain, **environ},
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=True,
    )


@pytest.mark.parametrize("ci", ["", "0", "false"])
def test_a_pipe_gets_nothing(ci: str) -> None:
    ended = run(CI=ci)
    assert (ended.stdout, ended.stderr) == ("report\n", "")


def test_ci_gets_one_line_a_stage_on_stderr() -> None:
    ended = run(CI="true")
    assert (ended.stdout, ended.stderr) == ("report\n", "ddpdoctor: first\nddpdoctor: second\n")


def test_a_terminal_gets_what_goes_on_and_is_left_clean() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:
                break
            if not chunk:
                break
            shown += chunk
        assert process.stdout is not None
        assert process.stdout.read() == b"report\n"
    os.close(ours)
    assert b"second" in shown
    assert shown.rstrip().endswith(b"\x1b[2K") or b"\x1b[?25h" in shown[-40:]
