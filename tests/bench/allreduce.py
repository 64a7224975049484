"""Does `allreduce-bench` measure the collective, or itself? Its timed loop and a bare one take turns in one job.

    python -m tests.bench.allreduce

Prints, for each size from 1 MiB on, the median that the command reports over that of the bare loop on rank 0; they must
agree within 5 %.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ddpdoctor.analysis.performance.bandwidth import median_seconds
from ddpdoctor.workflows.benchmark import size_timing

ROOT = Path(__file__).parents[2]
WITHIN = 0.05
SIZES = (1 << 20, 1 << 22, 1 << 24)
TURNS = 500  # of one call each: both loops meet the same load of the machine

RANK = """
import json, statistics, sys, time
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist
from collective import timed
from collective_call import Collective
from control import gathered
from rank import join, report

device = join()
collective = Collective("all_reduce", torch.float32, "sum")
for size in json.loads(sys.argv[2]):
    tensor = torch.zeros(size // 4)
    starts, durations, bare = [], [], []
    call = collective.over(tensor, tensor)
    timed(call, 5, device)
    for turn in range(int(sys.argv[3])):
        for loop in ("ours", "bare") if turn % 2 else ("bare", "ours"):
            if loop == "ours":
                timing = timed(call, 1, device)
                starts += timing[0]
                durations += timing[1]
            else:
                begin = time.perf_counter()
                dist.all_reduce(tensor)
                bare.append(time.perf_counter() - begin)
    ours = gathered((starts, durations), dist.group.WORLD)
    report({"size_bytes": size, "count": size // 4, "ranks": ours, "bare": statistics.median(bare)})
dist.destroy_process_group()
"""


def main() -> int:
    """Measure and print; 1 where a ratio is off by more than 5 %."""
    worst = 0.0
    for size, ours, bare in measured():
        ratio = ours / bare
        worst = max(worst, abs(ratio - 1))
        print(
            f"allreduce-bench over a bare loop, {size >> 20:>3} MiB: {ours * 1e6:8.0f} / {bare * 1e6:8.0f} us = {ratio:.3f}"
        )
    return int(worst > WITHIN)


def measured() -> list[tuple[int, float, float]]:
    """(size, the median that the command reports, the median of the bare loop on rank 0), with two ranks."""
    with tempfile.TemporaryDirectory() as folder:
        program, results = Path(folder) / "bare_and_ours.py", Path(folder) / "results.jsonl"
        program.write_text(RANK)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        arguments = [program, ROOT / "probes", json.dumps(SIZES), str(TURNS)]
        env = {**os.environ, "DDPDOCTOR_RESULTS": str(results), "OMP_NUM_THREADS": "1"}
        subprocess.run([*launcher, *arguments], env=env, check=True, timeout=240)
        events = [json.loads(line) for line in results.read_text().splitlines()]
        return [(event["size_bytes"], median_seconds(size_timing(event)), event["bare"]) for event in events]


if __name__ == "__main__":
    sys.exit(main())
