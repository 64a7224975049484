"""A program that overwrites MASTER_PORT under torchrun: `watch`, `hang` and `verify-sync` name the line while the ranks wait."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import PROGRAM_SECONDS

DDPDOCTOR = (sys.executable, "-m", "ddpdoctor")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
JOB = """
import os
import torch.distributed as dist
CONFIG = {"MASTER_PORT": "12355"}
def setup():
    OVERWRITES
    dist.init_process_group("gloo")

setup()
"""
PLACES = [("job.py", 6, "setup"), ("job.py", 6, "setup"), ("job.py", 7, "setup")]


def script(folder: Path, overwrites: str) -> Path:
    """The job, in which this statement overwrites the port."""
    path = folder / "job.py"
    path.write_text(JOB.replace("OVERWRITES", overwrites))
    return path


def right(report: dict[str, Any]) -> None:
    """The report has this finding and no other, with the line that did it."""
    (found,) = report["findings"]
    assert (found["code"], found["ranks"]) == ("DDP231", [0, 1])
    assert ":12355; the launcher serves it at " in found["message"]
    assert found["message"].endswith(": the program sets MASTER_PORT")
    assert [(Path(where["file"]).name, where["line"], where["function"]) for where in found["where"]] == PLACES


def test_watch_names_the_line_that_sets_a_whole_config(tmp_path: Path) -> None:
    job = script(tmp_path, "os.environ.update(CONFIG)")
    output = tmp_path / "report.json"
    options = ["--stall-after", "4", "--kill-on-hang", "--format", "json", "--output", str(output)]
    ended = subprocess.run(
        [*DDPDOCTOR, "watch", *options, "--", *TORCHRUN, str(job)],
        capture_output=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    right(json.loads(output.read_text()))


@pytest.mark.slow
def test_hang_names_the_line_that_sets_an_expression(tmp_path: Path) -> None:
    program = script(tmp_path, 'os.environ["MASTER_PORT"] = str(12000 + 355)')
    job = subprocess.Popen([*TORCHRUN, str(program)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        rank = _rank_that_waits(job.pid, time.monotonic() + 60)
        looked = subprocess.run(
            [*DDPDOCTOR, "hang", str(rank), "--format", "json"],
            capture_output=True,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
        right(json.loads(looked.stdout))
    finally:
        for child in psutil.Process(job.pid).children(recursive=True):
            child.kill()
        job.kill()
        job.wait(timeout=PROGRAM_SECONDS)


@pytest.mark.slow
def test_verify_sync_does_not_wait_for_such_a_script(tmp_path: Path) -> None:
    job = script(tmp_path, 'os.environ["MASTER_PORT"] = "12355"')
    ended = subprocess.run(
        [*DDPDOCTOR, "verify-sync", "--nproc", "2", "--format", "json", str(job)],
        capture_output=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    right(json.loads(ended.stdout))


def _rank_that_waits(launcher: int, deadline: float) -> int:
    """A rank that has loaded PyTorch and uses no processor any more: it sleeps between its tries to connect."""
    while time.monotonic() < deadline:
        loaded = [one for one in psutil.Process(launcher).children(recursive=True) if "libtorch" in _maps(one.pid)]
        before = {one.pid: one.cpu_times().user for one in loaded}
        time.sleep(2.0)
        for child in loaded:
            if child.cpu_times().user - before[child.pid] < 0.1:
                return child.pid
    raise AssertionError("no rank came")


def _maps(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""
