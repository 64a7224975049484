"""`watch --on-verdict`, `--metrics` and the summary of a GitHub job, with real ranks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PROGRAM_SECONDS

pytestmark = pytest.mark.slow

WATCH = (sys.executable, "-m", "ddpdoctor", "watch")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
STALLS_AND_GOES_ON = """
import time
import torch
import torch.distributed as dist

def fetch():
    time.sleep(12)

dist.init_process_group("gloo")
for step in range(6):
    if step == 3 and dist.get_rank() == 1:
        fetch()
    dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""
CRASHES = """
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    raise ValueError("no such class: 7")
dist.barrier()
"""
TAKES_THE_FOLDER_AWAY = """
import os
import shutil

if os.environ["RANK"] == "1":
    shutil.rmtree("metrics")
    open("metrics", "w").close()
"""
SAMPLE = re.compile(r'ddpdoctor_[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?[0-9][0-9.e+-]*')


def watch(folder: Path, *options: str, job: str) -> subprocess.CompletedProcess[str]:
    (folder / "job.py").write_text(job)
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(folder / "summary.md"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*WATCH, *options, "--", *TORCHRUN, "job.py"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PROGRAM_SECONDS, check=False,
    )  # fmt: skip


def samples(file: Path) -> list[str]:
    """The lines with values, each of which has the format."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert not [line for line in lines if not SAMPLE.fullmatch(line)]
    return lines


def test_a_stall_that_ends_is_told_twice_and_measured(tmp_path: Path) -> None:
    """The user's command hears of the verdict and of its end; the metrics end with the job's."""
    command = "cat > $DDPDOCTOR_EVENT.json; cp job.prom $DDPDOCTOR_EVENT.prom; echo told of $DDPDOCTOR_EVENT"
    ended = watch(
        tmp_path, "--stall-after", "3", "--on-verdict", command, "--metrics", "job.prom", job=STALLS_AND_GOES_ON
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""  # that of the job, which prints nothing
    assert "told of verdict" in ended.stderr
    assert "told of resumed" in ended.stderr
    verdict, resumed = (json.loads((tmp_path / f"{event}.json").read_text()) for event in ("verdict", "resumed"))
    assert [found["code"] for found in verdict["findings"]] == ["DDP307"]
    assert verdict["findings"][0]["ranks"] == [1]
    assert resumed["findings"] == []
    assert any("then the job resumed" in note for note in resumed["notes"])
    at_verdict, at_end = (samples(tmp_path / name) for name in ("verdict.prom", "job.prom"))
    assert any(line.startswith('ddpdoctor_verdict{code="DDP307"') for line in at_verdict)
    assert any(line.startswith('ddpdoctor_rank_seconds_since_progress{rank="1"') for line in at_verdict)
    assert {"ddpdoctor_job_running 0", "ddpdoctor_job_exit_code 0"} <= {*at_end}
    for rank in ("0", "1"):
        assert any(line.startswith(f'ddpdoctor_steps_total{{rank="{rank}"') for line in at_end), at_end
    assert "### ddpdoctor watch" in (tmp_path / "summary.md").read_text()


def test_a_command_and_a_file_that_do_not_work_cost_the_job_nothing(tmp_path: Path) -> None:
    """The folder of the metrics is there when the watch begins, and the job replaces it by a file."""
    (tmp_path / "metrics").mkdir()
    options = ["--on-verdict", "no-such-program --page", "--metrics", "metrics/job.prom"]
    ended = watch(tmp_path, *options, job=TAKES_THE_FOLDER_AWAY + CRASHES)
    assert ended.returncode == 1
    assert "ValueError: no such class: 7" in ended.stderr[ended.stderr.rindex("━━ ddpdoctor watch") :]
    assert "--on-verdict: `no-such-program --page` ended with exit code 127" in ended.stderr
    assert "job.prom" in ended.stderr
    assert ended.stderr.count("(the job is not affected)") == 2
    summary = (tmp_path / "summary.md").read_text()
    assert "no such class: 7" in summary
    assert summary.count("### ddpdoctor watch") == 1
