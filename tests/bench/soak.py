"""Whether `watch --verify-sync` stays within its space over a long run: memory of a rank and of the watcher, and bytes on disk.

    STEPS=200000 CURVE=soak.csv python -m tests.bench soak

A small job makes STEPS steps on two ranks under the command. After its first 1,000 steps nothing may grow by more than 1 %,
and the job is healthy, so nothing may be found. A rank's memory is compared with that of the same job alone, which has a slope
of its own (allocator, threads of gloo). CURVE is a file that gets all samples.
"""

from __future__ import annotations

import csv
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import psutil

from ddpdoctor.agent import DIRECTORY
from tests.free_port import free_port

STEPS = int(os.environ.get("STEPS", "200000"))
CURVE = os.environ.get("CURVE", "")
LIMIT = 1.01
SETTLED = 1000  # steps, after which nothing grows
EVERY_SECONDS = min(2.0, STEPS / 20_000)
SHOWN = 10
WATCH = (sys.executable, "-m", "ddpdoctor", "watch", "--verify-sync", "--stall-after", "600", "--")

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
    """Of the ranks together."""
    watcher_bytes: int
    disk_bytes: int


def main() -> int:
    """Measure and print; 1 where something grows or something was found."""
    with tempfile.TemporaryDirectory() as name:
        alone, _ = _run(Path(name, "alone"), STEPS // 10)
        watched, code = _run(Path(name, "watched"), STEPS, *WATCH)
        if code:
            print(Path(name, "watched", "stderr").read_text())
    for sample in watched[:: max(1, len(watched) // SHOWN)]:
        rank, watcher, disk = sample.rank_bytes / 1e6, sample.watcher_bytes / 1e6, sample.disk_bytes / 1e3
        print(f"soak: step {sample.step:>8,}  ranks {rank:7.1f} MB  watcher {watcher:6.1f} MB  disk {disk:8.1f} kB")
    if CURVE:
        _write_curve(Path(CURVE), {"alone": alone, "watched": watched})
    ranks_alone = _growth(alone, "rank_bytes")
    ranks = _growth(watched, "rank_bytes")
    grown = {"ranks": ranks / ranks_alone} | {
        field.removesuffix("_bytes"): _growth(watched, field) for field in ("watcher_bytes", "disk_bytes")
    }
    print(f"soak: ranks alone: {ranks_alone:.4f}, watched: {ranks:.4f} of what it was after {SETTLED:,} steps")
    for what, factor in grown.items():
        print(f"soak: {what}: {factor:.4f} of what it was after {SETTLED:,} of {STEPS:,} steps (limit {LIMIT:g})")
    print(f"soak: exit code {code}")
    return int(max(grown.values()) > LIMIT or code != 0)


def _growth(samples: list[Sample], field: str) -> float:
    """The last tenth of the samples over the first ones after the job has settled, by their medians.

    What follows the last step that was told is left out: a rank that ends writes down its flight recorder.
    """
    settled = [getattr(one, field) for one in samples if SETTLED <= one.step < samples[-1].step]
    tenth = max(5, len(settled) // 10)
    return statistics.median(settled[-tenth:]) / statistics.median(settled[: min(tenth, 5)])


def _write_curve(path: Path, runs: Mapping[str, Sequence[Sample]]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["run", *(field.name for field in fields(Sample))])
        rows.writerows((run, *astuple(one)) for run, samples in runs.items() for one in samples)


def _run(folder: Path, steps: int, *before: str) -> tuple[list[Sample], int]:
    """The samples of one run of the job, and its exit code."""
    folder.mkdir()
    script, told = folder / "train.py", folder / "step"
    script.write_text(JOB)
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()))
    command = [*before, sys.executable, *torchrun, str(script), str(steps), str(told)]
    with Path(folder, "stderr").open("w") as stderr:
        job = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=stderr)
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
            disk = sum(file.stat().st_blocks * 512 for file in Path(directory).iterdir()) if directory else 0
            used = sum(one.memory_info().rss for one in ranks.values())
            yield Sample(step, used, watcher.memory_info().rss, disk)
        except (OSError, KeyError, ValueError, psutil.Error):
            continue  # it begins, or ends


if __name__ == "__main__":
    sys.exit(main())
