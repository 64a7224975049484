"""The stand-in behaves like ranks on GPUs: calls return at once, reading a result spins, recorder and watchdog are NCCL's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.launch.guarded_process import run
from tests import standin
from tests.waiting import PROGRAM_SECONDS

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LATE = """
import json, os, pickle, sys, time
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    time.sleep(2)
total = torch.full((4,), float(rank + 1))
began, cpu = time.monotonic(), time.process_time()
dist.all_reduce(total)
returned = time.monotonic() - began
total[0].item()
read, burnt = time.monotonic() - began, time.process_time() - cpu
*_, last = pickle.loads(_distributed_c10d._dump_fr_trace())["entries"]
kept = [last[key] for key in ("profiling_name", "collective_seq_id", "state")]
times = [last["time_created_ns"], last["time_discovered_started_ns"], last["time_discovered_completed_ns"]]
told = {"returned": returned, "read": read, "burnt": burnt, "total": total.tolist(), "kept": kept, "times": times}
with open(f"{sys.argv[1]}/{rank}.json", "w") as file:
    json.dump(told, file)
dist.destroy_process_group()
"""
NEVER_COMES = """
import time
from datetime import timedelta
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
total = torch.ones(4)
dist.all_reduce(total)
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(total)
total[0].item()
"""


def job(program: str, folder: Path) -> list[str]:
    (folder / "job.py").write_text(program)
    return [*TORCHRUN, str(folder / "job.py"), str(folder)]


def test_a_collective_returns_at_once_and_reading_its_result_spins(tmp_path: Path) -> None:
    ended = run(job(LATE, tmp_path), deadline_seconds=100, env=standin.environment())
    assert ended.code == 0, ended.stderr
    early, late = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert early["total"] == late["total"] == [3.0] * 4
    assert early["returned"] < 1.0 < early["read"]
    assert early["burnt"] > 0.05 * early["read"]  # it spins; on a busy machine those that compute go first
    for rank in (early, late):
        assert rank["kept"] == ["nccl:all_reduce", 2, "completed"]
        assert rank["times"] == sorted(rank["times"])


@pytest.mark.slow
def test_its_watchdog_leaves_what_nccls_leaves_and_diagnose_names_the_rank(tmp_path: Path) -> None:
    dumps = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "nccl_trace_rank_")}
    ended = run(job(NEVER_COMES, tmp_path), deadline_seconds=100, env={**standin.environment(), **dumps})
    assert "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE" in ended.stderr
    (tmp_path / "job.log").write_text(ended.stderr)
    assert (tmp_path / "nccl_trace_rank_0").exists()
    files = [tmp_path / "nccl_trace_rank_0", tmp_path / "job.log"]
    diagnosed = subprocess.run(
        [sys.executable, "-m", "ddpdoctor", "diagnose", "--format", "json", *map(str, files)],
        capture_output=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    first = json.loads(diagnosed.stdout)["findings"][0]
    assert first["code"] in {"DDP307", "DDP408"}, first
