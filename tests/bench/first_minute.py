"""What the audits of a job's first minute cost: `verify-sync` and `watch --verify-sync` at work from the first step.

    python -m tests.bench first_minute
    JOBS=small RUN_SECONDS=20 python -m tests.bench first_minute

Audits are frequent in the first steps, and the first of them work out what later ones use. `tests.bench price` gives each way
some seconds of its job only; here a job runs for RUN_SECONDS, alone on the machine. A step that is audited is compared with the
median of all steps; what a first step takes more than a later one in a job without an agent is taken off. The observers of
steps that are not audited are not in these figures: `price` has them.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist

from tests.agents_in_turn import installed
from tests.bench.price import RESULTS, WAYS, training
from tests.processor_counters import counters

JOBS = os.environ.get("JOBS", "reference,transformer,small").split(",")
SECONDS = float(os.environ.get("RUN_SECONDS", "60"))
OWN_FIRST_STEPS = 4  # of a job: until then it allocates, and DDP rebuilds its buckets
_COUNTED = counters()


def rank_main() -> None:
    """One rank: the job alone for some steps, then a fresh copy of it with the agent; rank 0 writes down its steps."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, folder = dist.get_rank(), Path(os.environ[RESULTS]).parent
    job, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    way = WAYS[name]
    agent = installed("0", way.features, folder / f"agent-{rank}", way.environ)
    step = training(job)
    alone = [_taken(step) for _ in range(3 * OWN_FIRST_STEPS)]
    with agent.at_work():
        step = training(job)
        steps, began, goes_on = [], time.perf_counter(), torch.ones(())
        while goes_on:
            steps += [_taken(step) for _ in range(8)]
            goes_on.fill_(float(time.perf_counter() - began < seconds))
            dist.broadcast(goes_on, 0)
    lines = (
        line for file in (folder / "agent-0").rglob("*") if file.is_file() for line in file.read_bytes().splitlines()
    )
    audited = [json.loads(line)[1][0] for line in lines if line.startswith(b'["Step"')]
    if rank == 0:
        with Path(os.environ[RESULTS]).open("a") as file:
            file.write(json.dumps({"alone": alone, "steps": steps, "audited": audited}) + "\n")
    dist.barrier()
    dist.destroy_process_group()


def _taken(step: object) -> tuple[float, float, float]:
    """Seconds on the clock, seconds of this process, and instructions of one step."""
    assert callable(step)
    with _COUNTED or nullcontext():
        clock, processor = time.perf_counter(), time.process_time()
        step()
        took = time.perf_counter() - clock, time.process_time() - processor
    return *took, float(_COUNTED.read().instructions) if _COUNTED else 0.0


def main() -> int:
    """Run all jobs and print a table."""
    from ddpdoctor.launch.ranks import run_ranks

    for job in JOBS:
        for name in (name for name, way in WAYS.items() if way.summed):
            ran = run_ranks(
                Path(__file__), arguments=[job, name, str(SECONDS)], nproc=2, deadline_seconds=4 * SECONDS + 120,
                env={"PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            if ran.ended.code:
                sys.exit(ran.ended.stderr)
            [row] = ran.results
            clock, processor, instructions = ([step[kind] for step in row["steps"]] for kind in range(3))
            own = [[step[kind] for step in row["alone"]] for kind in range(3)]
            shares = [
                sum(taken[place] - statistics.median(taken) - _more_at_first(alone, place) for place in row["audited"])
                / sum(taken)
                for taken, alone in ((clock, own[0]), (processor, own[1]), (instructions, own[2]))
                if sum(taken)
            ]
            print(
                f"{job:<12} {name:<20} {len(row['audited'])} of {len(clock)} steps audited, in {sum(clock):.0f} s; audits took "
                f"{shares[0]:.4f} of the clock, {shares[1]:.4f} of the processor time"
                + (f", {shares[2]:.4f} of the instructions" if len(shares) > 2 else ""),
                flush=True,
            )
    return 0


def _more_at_first(alone: list[float], place: int) -> float:
    """What the step at `place` takes more than a later one in a job without an agent."""
    return alone[place] - statistics.median(alone) if place < OWN_FIRST_STEPS else 0.0


if __name__ == "__main__":
    rank_main()
