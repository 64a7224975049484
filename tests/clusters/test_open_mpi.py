"""ddpdoctor as the ranks of a real `mpirun`, which sets neither RANK nor MASTER_ADDR."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MPIRUN = ("mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed: apt-get install openmpi-bin"),
]


def mpirun(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*MPIRUN, str(Path(sys.executable).with_name("ddpdoctor")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def test_env_gathers_both_ranks() -> None:
    ended = mpirun("env", "--format", "json", "--select", "DDP2")
    assert ended.returncode == 0, ended.stderr
    outcomes = {outcome["code"]: outcome["outcome"] for outcome in json.loads(ended.stdout)["outcomes"]}
    assert outcomes["DDP205"] == outcomes["DDP206"] == "ran"


def test_the_benchmark_joins_both_ranks() -> None:
    ended = mpirun("allreduce-bench", "--sizes", "1K", "--iters", "5")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("all_reduce over gloo, 2 ranks") == 1
    assert "0 wrong" in ended.stdout


def test_net_is_the_work_of_one_rank_of_the_host() -> None:
    ended = mpirun("net", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count('"schema"') == 1
    assert json.loads(ended.stdout)["measured"]["links"]["expected"] == 1


def test_replicas_are_compared_over_both_ranks() -> None:
    ended = mpirun("verify-sync")
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert "no findings" in ended.stdout


def test_training_joins_both_ranks() -> None:
    ended = mpirun("train", "--max-steps", "5", "--format", "json", "--select", "DDP524")
    assert ended.returncode == 0, ended.stderr
    training = json.loads(ended.stdout)["measured"]["training"]
    assert (training["world_size"], len(set(training["weights"]))) == (2, 1)
