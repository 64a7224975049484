"""What `ddpdoctor diagnose` costs for a saved case of many ranks: seconds, processor seconds and peak memory.

    python -m tests.bench large_case           # 1,000 and 10,000 ranks; RANKS="4096" for others

Each rank has a flight recorder of 501 calls with two stacks; one rank in the middle leaves out its last call. The limits hold for
10,000 ranks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ddpdoctor import case
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.recorder import Call, FlightRecord, ProcessGroup, State

LIMIT_SECONDS, LIMIT_BYTES, LIMITS_HOLD_UP_TO = 10.0, 2 << 30, 10_000
CALLS = 501
PER_HOST = 8
START_NS, STEP_NS = 1_795_233_867_118_125_849, 10**7


def main() -> int:
    """Measure and print; 1 where a number of ranks is over a limit."""
    return max([measured(int(ranks)) for ranks in os.environ.get("RANKS", "1000 10000").split()])


def measured(ranks: int) -> int:
    """Print one line for a case of `ranks` ranks; 1 where it is over a limit."""
    with tempfile.TemporaryDirectory() as name:
        file = case.save(job(ranks), Path(name, "job.json"))
        size = file.stat().st_size
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "ddpdoctor", "diagnose", str(file)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = process.stdout.read()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
        seconds = time.perf_counter() - began
    processor, peak = used.ru_utime + used.ru_stime, used.ru_maxrss << 10
    named = "DDP307" in said and f"rank {ranks // 2} " in " ".join(said.split())
    over = not named or (ranks <= LIMITS_HOLD_UP_TO and (processor > LIMIT_SECONDS or peak > LIMIT_BYTES))
    print(
        f"large case: {ranks:6} ranks, {size >> 20} MB: {seconds:.1f} s, processor {processor:.1f} s (limit {LIMIT_SECONDS:g}), "
        f"memory {peak >> 20} MB (limit {LIMIT_BYTES >> 20}); the rank is {'named' if named else 'NOT named'}; "
        f"load {os.getloadavg()[0]:.0f}",
        flush=True,
    )
    if not named:
        print(said[-2000:], file=sys.stderr)
    return int(over)


def job(ranks: int) -> Evidence:
    """A job of `ranks` ranks whose middle rank did not make its last call."""
    frames = tuple(
        Frame(file=file, line=line, function=function)
        for file, line, function in (
            ("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 3051, "all_reduce"),
            ("/job/train.py", 61, "train_step"),
            ("/job/train.py", 77, "evaluate"),
            ("/job/train.py", 90, "<module>"),
        )
    )
    states = (*[State.DONE] * (CALLS - 1), State.STARTED)
    group = ProcessGroup(backend="nccl", name="0", description="default_pg", number=0)
    record = FlightRecord(
        version="2.10",
        groups=(replace(group, last_enqueued=CALLS, last_completed=CALLS - 1),),
        calls=tuple(
            Call(group=0, op="all_reduce", input_sizes=((size,),), input_dtypes=("Float",), output_sizes=((size,),))
            for size in (1024, 4096)
        ),
        frames=frames,
        stacks=((0, 1, 3), (0, 2, 3)),
        call=tuple(number % 2 for number in range(CALLS)),
        seq=tuple(range(1, CALLS + 1)),
        stack=tuple(number % 2 for number in range(CALLS)),
        state=states,
        created_ns=tuple(START_NS + number * STEP_NS for number in range(CALLS)),
    )
    return Evidence(
        job=(JobSize(ranks=ranks),),
        ranks=tuple(
            RankFacts(
                rank=rank, host=f"node{rank // PER_HOST:04}", facts=(_of(record, rank, behind=rank == ranks // 2),)
            )
            for rank in range(ranks)
        ),
        about_job=True,
    )


def _of(record: FlightRecord, rank: int, *, behind: bool) -> FlightRecord:
    """The recorder of one rank: its own times, and without the last call where it is `behind`."""
    made = slice(CALLS - 1 if behind else CALLS)
    return replace(
        record,
        call=record.call[made],
        seq=record.seq[made],
        stack=record.stack[made],
        state=record.state[made],
        created_ns=tuple(at + rank for at in record.created_ns[made]),
    )


if __name__ == "__main__":
    sys.exit(main())
