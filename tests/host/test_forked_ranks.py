"""`hang` finds ranks that were forked, and takes the workers of a loader for none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddpdoctor.host.running_jobs import RunningJob, find_jobs
from tests.free_port import free_port

RANKS = """
import multiprocessing, os, sys, time
import torch.distributed as dist

def rank(number, port):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo")
    dist.barrier()
    os.write(1, f"{number} {os.getpid()}\\n".encode())
    time.sleep(600)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ranks = [context.Process(target=rank, args=(number, sys.argv[2]), daemon=True) for number in (0, 1)]
    for each in ranks: each.start()
    time.sleep(600)
"""
WORKERS = """
import sys, time
from torch.utils.data import DataLoader

loader = iter(DataLoader(range(1000), num_workers=2))
next(loader)
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def running(tmp_path: Path, text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "job.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "job.py", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def job_of(pids: set[int]) -> list[RunningJob]:
    return [job for job in find_jobs().jobs if {*job.pids} & pids]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "forkserver", "spawn"])
def test_ranks_that_were_started_by_multiprocessing_are_found(tmp_path: Path, how: str) -> None:
    with running(tmp_path, RANKS, how, str(free_port())) as process:
        assert process.stdout is not None
        pids = {int(number): int(pid) for number, pid in (process.stdout.readline().split() for _ in range(2))}
        (job,) = job_of({*pids.values()})
        assert {target.rank: target.pid for target in job.targets} == pids
        assert job.world_size == 2


def test_workers_of_a_loader_are_no_ranks(tmp_path: Path) -> None:
    with running(tmp_path, WORKERS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert [job for job in find_jobs().jobs if str(process.pid) in job.name] == []
