"""Disks that are full or read-only cost files of ours, never the verdict, and never the job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpdoctor.cli import run
from tests.small_disks import small_disk
from tests.waiting import PROGRAM_SECONDS

WATCH = (sys.executable, "-m", "ddpdoctor", "watch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
GLOO = Path(__file__).parents[1] / "data" / "recorder" / "gloo"
JOB = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(300):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    print("the job is done")
dist.destroy_process_group()
"""


@pytest.fixture
def tiny_disk() -> Iterator[Path]:
    """A file system of 64 KB, of which 16 KB are free; its path is short enough for sockets."""
    with small_disk(kilobytes=64) as disk:
        (disk / "fill").write_bytes(bytes(48 << 10))
        yield disk


@pytest.fixture
def no_place(tmp_path: Path) -> Path:
    """A path at which nobody can write, not even root."""
    (tmp_path / "file").write_text("not a directory")
    return tmp_path / "file" / "case"


def test_watch_says_that_the_case_is_lost_and_leaves_the_jobs_own_code(tmp_path: Path) -> None:
    place = tmp_path / "case"
    ended = subprocess.run(
        [*WATCH, "--case", str(place), "--", "sh", "-c", f"touch {place}; exit 7"],
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 7
    assert f"cannot write {place / 'case.json'}: " in ended.stderr
    assert "(the job is not affected)" in ended.stderr
    assert "Evidence saved" not in ended.stderr


@pytest.mark.parametrize("option", ["--case", "--output"])
def test_the_verdict_is_out_before_a_file_that_cannot_be_written(
    option: str, no_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diagnose", str(GLOO), option, str(no_place)]) == 4
    said = capsys.readouterr()
    assert "DDP301 collective-mismatch: rank 0 called broadcast #9" in said.out
    assert f"cannot write {no_place}" in said.err


def test_a_full_temporary_directory_costs_the_agents_and_not_the_job(tiny_disk: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    environ = {**os.environ, "TMPDIR": str(tiny_disk), "XDG_RUNTIME_DIR": "", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*WATCH, "--", "env", f"TMPDIR={tmp_path}", *TORCHRUN, str(script)],
        capture_output=True, text=True, timeout=PROGRAM_SECONDS, check=False, env=environ,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "the job is done\n"), ended.stderr
    assert f"the agents could not write: {tiny_disk} is full" in ended.stderr
