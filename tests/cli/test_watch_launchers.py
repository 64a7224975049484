"""`ddpdoctor watch` around every way to start ranks: mp.spawn, accelerate, torchrun on several nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.waiting import PROGRAM_SECONDS

WATCH = (sys.executable, "-m", "ddpdoctor", "watch", "--stall-after", "2")
TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def fetch():
    time.sleep(600)  # the line

def raise_it():
    raise KeyError("the shard of this rank")  # the other line

def train(fault, culprit):
    for step in range(6):
        if step == 3 and dist.get_rank() == culprit:
            fault()
        dist.all_reduce(torch.ones(2))
    dist.barrier()
"""
SPAWNED = """
def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    train(fetch, 1)

if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
"""
LAUNCHED = """
if __name__ == "__main__":
    dist.init_process_group("gloo")
    train({"sleep": fetch, "raise": raise_it}[sys.argv[1]], int(sys.argv[2]))
    dist.destroy_process_group()
"""
ACCELERATED = """
from accelerate import Accelerator

if __name__ == "__main__":
    accelerator = Accelerator(cpu=True)
    train(fetch, 1)
"""


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(TRAIN.splitlines(), 1) if line.endswith(mark))


def script(folder: Path, how: str) -> Path:
    path = folder / "train.py"
    path.write_text(TRAIN + how)
    return path


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
    )


def test_the_ranks_of_mp_spawn_are_watched(tmp_path: Path) -> None:
    job = script(tmp_path, SPAWNED)
    ended = run(*WATCH, "--kill-on-hang", "--", sys.executable, str(job), str(free_port()))
    assert ended.returncode == 1
    assert (
        f"DDP307 rank-stuck-outside-collective: rank 1 in fetch (train.py:{line_of('# the line')}) sleeps"
        in ended.stderr
    )


@pytest.mark.slow
def test_the_ranks_of_accelerate_launch_are_watched(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    where = (
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        "--main_process_port",
        str(free_port()),
    )
    job = script(tmp_path, ACCELERATED)
    ended = run(*WATCH, "--kill-on-hang", "--", *launch, *where, str(job), ACCELERATE_USE_CPU="true")
    assert ended.returncode == 1
    assert (
        f"DDP307 rank-stuck-outside-collective: rank 1 in fetch (train.py:{line_of('# the line')}) sleeps"
        in ended.stderr
    )


def two_nodes(folder: Path, fault: str, *options: str) -> list[subprocess.CompletedProcess[str]]:
    """A job of two nodes with one rank each, of which rank 1 is at fault; both write their case into one directory."""
    job, port = script(folder, LAUNCHED), str(free_port())

    def node(number: int) -> subprocess.CompletedProcess[str]:
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1")
        where = ("--node-rank", str(number), "--master-addr", "127.0.0.1", "--master-port", port)
        report = ("--format", "json", "-o", str(folder / f"report-{number}.json"))
        case = ("--case", str(folder / "case"))
        return run(*WATCH, *options, *report, *case, "--", *torchrun, *where, str(job), fault, "1")

    with ThreadPoolExecutor(2) as pool:
        return [*pool.map(node, (0, 1))]


@pytest.mark.slow
def test_the_node_of_rank_0_names_the_line_of_a_rank_that_raised_on_another_node(tmp_path: Path) -> None:
    first, second = two_nodes(tmp_path, "raise")
    assert (first.returncode, second.returncode) == (1, 1)
    assert "DDP401 rank-raised: rank 1 raised KeyError: 'the shard of this rank'" in first.stderr
    assert f"train.py:{line_of('# the other line')} in raise_it" in first.stderr
    again = run(sys.executable, "-m", "ddpdoctor", "diagnose", str(tmp_path / "case"), "--format", "json")
    assert [(found["code"], found["ranks"]) for found in json.loads(again.stdout)["findings"]] == [("DDP401", [1])]
