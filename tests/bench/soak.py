"""Whether `watch --verify-sync` stays within its space over a long run: memory of a rank and of the watcher, and bytes on disk.

    STEPS=200000 python -m tests.bench soak

A small job makes STEPS steps on two ranks under the command. After the first tenth nothing may grow by more than 1 %, and
the job is healthy, so nothing may be found. A rank's memory is compared with that of the same job alone, which has a slope of
its own (allocator, threads of gloo).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from ddpdoctor.agent import DIRECTORY
from tests.free_port import free_port

STEPS = int(os.environ.get("STEPS", "200000"))
LIMIT = 1.01
EVERY_SECONDS = 2.0
SHOWN = 10

JOB = """
import sys
import torch
import torch.distributed as dist
from pathlib import Path
from torch import nn
from torch.nn.parallel import DistributedDataParallel

steps, told = int(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.Generator().manual_seed(dist.get_rank())
for step in range(steps):
    optimizer.zero_grad()
    model(torch.randn(4, 8, generator=data)).square().mean().backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 500 == 0:
        told.write_text(str(step))
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """The space that everything takes at one moment."""

    step: int
    rank_bytes: int
    watcher_bytes: int
    disk_bytes: int


def main() -> int:
    """Measure and print; 1 where something grows or something was found."""
    with tempfile.TemporaryDirectory() as name:
        alone, _ = _run(Path(name, "alone"))
        watched, code = _run(Path(name, "watched"), sys.executable, "-m", "ddpdoctor", "watch", "--verify-sync", "--")
    for sample in watched[:: max(1, len(watched) // SHOWN)]:
        rank, watcher, disk = sample.rank_bytes / 1e6, sample.watcher_bytes / 1e6, sample.disk_bytes / 1e3
        print(f"soak: step {sample.step:>8,}  rank {rank:7.1f} MB  watcher {watcher:6.1f} MB  disk {disk:8.1f} kB")
    grown = {
        "rank": _growth([one.rank_bytes for one in watched]) / _growth([one.rank_bytes for one in alone]),
        "watcher": _growth([one.watcher_bytes for one in watched]),
    }
    most = max(one.disk_bytes for one in watched)
    for what, factor in grown.items():
        print(f"soak: {what}: {factor:.4f} of what it was after a tenth of the {STEPS:,} steps (limit {LIMIT:g})")
    print(f"soak: most on disk {most / 1e6:.1f} MB; exit code {code}")
    return int(max(grown.values()) > LIMIT or code != 0)


def _growth(values: list[int]) -> float:
    """The last tenth of the samples over the second, by their medians."""
    tenth = max(1, len(values) // 10)
    early, late = sorted(values[tenth : 2 * tenth]), sorted(values[-tenth:])
    return late[len(late) // 2] / early[len(early) // 2]


def _run(folder: Path, *before: str) -> tuple[list[Sample], int]:
    """The samples of one run of the job, and its exit code."""
    folder.mkdir()
    script, told = folder / "train.py", folder / "step"
    script.write_text(JOB)
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()))
    command = [*before, sys.executable, *torchrun, str(script), str(STEPS), str(told)]
    job = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
    try:
        samples = [*_samples(job, told)]
        return samples, job.wait(timeout=60)
    finally:
        if job.poll() is None:
            job.send_signal(signal.SIGTERM)
            job.wait(timeout=60)


def _samples(job: subprocess.Popen[bytes], told: Path) -> Iterator[Sample]:
    while job.poll() is None:
        time.sleep(EVERY_SECONDS)
        try:
            step = int(told.read_text() or "0")
            watcher = psutil.Process(job.pid)
            ranks = {one.environ()["RANK"]: one for one in watcher.children(recursive=True) if "RANK" in one.environ()}
            directory = ranks["0"].environ().get(DIRECTORY)
            disk = sum(file.stat().st_size for file in Path(directory).iterdir()) if directory else 0
            yield Sample(step, ranks["0"].memory_info().rss, watcher.memory_info().rss, disk)
        except (OSError, KeyError, ValueError, psutil.Error):
            continue  # it begins, or ends


if __name__ == "__main__":
    sys.exit(main())
