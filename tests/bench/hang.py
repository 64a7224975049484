"""How soon `watch` and `hang` name the rank that blocks a job of many ranks on one host, and with how much memory.

    python -m tests.bench hang           # 32 and 64 ranks; RANKS="8 16" for others

The job makes all-reduces over gloo until one rank sleeps and its peers wait for it. `watch` has its verdict at most 5 s after
`--stall-after`; then `hang` looks at the same job from outside. Each of them may have 100 MB, without the programs that it
starts. The ranks do nothing else, but each needs torch: 64 of them take a minute to start on two cores.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

STALL_AFTER = 10.0
LIMIT_SECONDS, LIMIT_BYTES = 5.0, 100 << 20
START_SECONDS = 170.0  # at most, from the start of the job to its hang
VERDICT_SECONDS = 60.0
POLL_SECONDS = 0.05
WATCHES, HANGS = "watch", "hang"
JOB = """
import os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
sick = dist.get_world_size() // 2
for step in range(20):
    if step == 19:
        open(os.path.join(sys.argv[1], str(dist.get_rank())), "w").close()
        if dist.get_rank() == sick:
            time.sleep(3600)
    dist.all_reduce(torch.ones(16))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one of the two commands needed."""

    command: str
    seconds: float
    """From the time at which it may speak, to its verdict."""
    processor: float
    """Seconds of processor time, with the programs that it started."""
    peak: int
    """The most memory of its process, in bytes."""
    named: bool
    """Whether the verdict names the rank."""


def main() -> int:
    """Measure and print; 1 where something is over a limit."""
    return max([measured(int(ranks)) for ranks in os.environ.get("RANKS", "32 64").split()])


def measured(ranks: int) -> int:
    """Print two lines for a job of `ranks` ranks; 1 where one of them is over a limit."""
    over = 0
    for cost in _costs(ranks):
        over |= not cost.named or cost.seconds > LIMIT_SECONDS or cost.peak > LIMIT_BYTES
        print(
            f"{cost.command}: {ranks} ranks: verdict after {cost.seconds:.1f} s (limit {LIMIT_SECONDS:g}), processor "
            f"{cost.processor:.1f} s, memory {cost.peak >> 20} MB (limit {LIMIT_BYTES >> 20}); the rank is "
            f"{'named' if cost.named else 'NOT named'}; load {os.getloadavg()[0]:.0f}",
            flush=True,
        )
    return int(over)


def _costs(ranks: int) -> Iterator[Cost]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script, still, said = folder / "train.py", folder / "still", folder / "said"
        still.mkdir()
        script.write_text(JOB, encoding="utf-8")
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        with said.open("w") as output, _ended(
            subprocess.Popen(
                [sys.executable, "-m", "ddpdoctor", "watch", "--stall-after", f"{STALL_AFTER:g}", "--", *launcher,
                 str(script), str(still)],
                stdout=subprocess.DEVNULL, stderr=output, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=folder,
            )
        ) as watch:  # fmt: skip
            _until(lambda: len([*still.iterdir()]) == ranks, START_SECONDS)
            began = max(file.stat().st_ctime for file in still.iterdir())
            before = _processor(watch.pid)
            _until(lambda: "DDP" in said.read_text(encoding="utf-8"), STALL_AFTER + VERDICT_SECONDS)
            yield Cost(
                command=WATCHES,
                seconds=time.time() - began - STALL_AFTER,
                processor=_processor(watch.pid) - before,
                peak=_peak(watch.pid),
                named=_names(said.read_text(encoding="utf-8"), ranks // 2),
            )
            yield _hang(watch.pid, ranks // 2)


def _hang(job: int, sick: int) -> Cost:
    began = time.monotonic()
    command = [sys.executable, "-m", "ddpdoctor", HANGS, str(_launcher(job))]
    with psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as hang:
        peaks = [0]
        sampler = threading.Thread(target=_sample, args=(hang.pid, peaks), daemon=True)
        sampler.start()
        before = os.times()
        said = hang.communicate(timeout=VERDICT_SECONDS)[0]
        used = os.times()
    return Cost(
        command=HANGS,
        seconds=time.monotonic() - began,
        processor=used.children_user + used.children_system - before.children_user - before.children_system,
        peak=max(peaks),
        named=_names(said, sick),
    )


def _launcher(watch: int) -> int:
    """torchrun, below the watcher."""
    below = psutil.Process(watch).children(recursive=True)
    return next(process.pid for process in below if "torch.distributed.run" in process.cmdline()[1:3])


def _names(said: str, sick: int) -> bool:
    return bool(re.search(rf"DDP3\d\d\S* .*\brank {sick}\b", " ".join(said.split())))


def _sample(pid: int, peaks: list[int]) -> None:
    while peak := _peak(pid):
        peaks.append(peak)
        time.sleep(POLL_SECONDS)


def _peak(pid: int) -> int:
    """The most memory that the process has had; 0 after its end."""
    with contextlib.suppress(OSError, StopIteration):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) << 10
    return 0


def _processor(pid: int) -> float:
    """Processor seconds of the process and of its children that have ended."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def _until(there: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {seconds:g} s")
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, and its end as Ctrl-C would end it."""
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
