"""`ddpdoctor watch` under a real Slurm: around a torchrun a node, and around every task of srun."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import faulty_job
from tests.clusters.conftest import Slurm, free_ports

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]
WATCH = 'ddpdoctor watch --stall-after 4 --kill-on-hang --case "$SHARED" --'
TORCHRUN = (
    'torchrun --nnodes 2 --node-rank "$SLURM_NODEID" --nproc-per-node 2 --master-addr 127.0.0.1 --master-port "$PORT"'
)


def srun(slurm: Slurm, case: Path, options: list[str], job: str) -> subprocess.CompletedProcess[str]:
    port = str(free_ports(1)[0])
    environ = {
        "SHARED": str(case),
        "PORT": port,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    return slurm.run("srun", "-N2", "--label", *options, "bash", "-c", f"{WATCH} {job}", seconds=300, **environ)


def named(ended: subprocess.CompletedProcess[str], case: Path, fault: str, culprit: int, code: str) -> None:
    """Rank 0's node alone names the culprit and its line, and `diagnose` says the same of the cases."""
    verdicts = [line for line in ended.stderr.splitlines() if f"{code} " in line]
    assert verdicts, ended.stderr
    assert all(line.startswith("0: ") for line in verdicts), ended.stderr
    command = [sys.executable, "-m", "ddpdoctor", "diagnose", str(case), "--format", "json"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    (found,) = [each for each in json.loads(again.stdout)["findings"] if each["explained_by"] is None]
    assert (found["code"], found["ranks"]) == (code, [culprit])
    assert (culprit, faulty_job.line_of(fault)) in {(place["rank"], place["line"]) for place in found["where"]}


@pytest.mark.slow
def test_a_torchrun_a_node_that_hangs_is_named_by_the_node_of_rank_0(slurm: Slurm, tmp_path: Path) -> None:
    job = f"{TORCHRUN} {faulty_job.__file__} calls-alone 2"
    ended = srun(slurm, tmp_path / "case", ["--ntasks-per-node=1"], job)
    named(ended, tmp_path / "case", "calls-alone", 2, "DDP305")


@pytest.mark.matrix
def test_a_healthy_job_of_a_torchrun_a_node_gets_silence(slurm: Slurm, tmp_path: Path) -> None:
    ended = srun(slurm, tmp_path / "case", ["--ntasks-per-node=1"], f"{TORCHRUN} {faulty_job.__file__} nothing 0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("ddpdoctor: ") == ended.stderr.count("ddpdoctor: nothing found: ")


@pytest.mark.matrix
@pytest.mark.parametrize(("fault", "code"), [("sleeps", "DDP307"), ("raises", "DDP401")])
def test_ranks_that_srun_started_are_named_by_that_of_rank_0(
    slurm: Slurm, tmp_path: Path, fault: str, code: str
) -> None:
    job = f"{sys.executable} {faulty_job.__file__} {fault} 3"
    ended = srun(slurm, tmp_path / "case", ["--ntasks-per-node=2"], job)
    named(ended, tmp_path / "case", fault, 3, code)
    assert len([*(tmp_path / "case").glob("node-with-rank-*.json")]) == 4
