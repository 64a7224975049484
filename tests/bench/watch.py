"""What being watched costs: the reference job under `ddpdoctor watch` over the same job alone, in pairs that take turns.

    python -m tests.bench watch

The training time that the job itself measures may be at most 2 % longer, by the median of the pairs, and the weights must
be the same bit by bit.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMIT = 1.02
PAIRS = int(os.environ.get("PAIRS", "7"))
EPOCHS = 4
TRAIN = Path(__file__).parents[2] / "reference_train" / "train.py"
JOB = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(TRAIN))


def main() -> int:
    """Measure and print; 1 where it is over the limit or the weights differ."""
    run(watched=False)  # fills the caches
    ratios: list[float] = []
    seconds: dict[bool, list[float]] = {False: [], True: []}
    same = True
    for pair in range(PAIRS):
        first, second = (run(watched=watched) for watched in ((False, True) if pair % 2 else (True, False)))
        alone, watched = (first, second) if pair % 2 else (second, first)
        same = same and alone["weights"] == watched["weights"]
        ratios.append(watched["seconds"] / alone["seconds"])
        seconds[True].append(watched["seconds"])
        seconds[False].append(alone["seconds"])
        print(f"watched over alone: {watched['seconds']:.2f} / {alone['seconds']:.2f} s = {ratios[-1]:.3f}", flush=True)
    median = statistics.median(ratios)
    print(f"watch: best of each {min(seconds[True]):.2f} / {min(seconds[False]):.2f} s")
    print(f"watch: median of {PAIRS} pairs {median:.3f} (limit {LIMIT:g}); weights {'identical' if same else 'DIFFER'}")
    return int(median > LIMIT or not same)


def run(*, watched: bool) -> dict[str, Any]:
    """The last line that the job writes: how long it trained, and the digests of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        watch = (sys.executable, "-m", "ddpdoctor", "watch", "--") if watched else ()
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [*watch, *JOB, "--epochs", str(EPOCHS), "--json-lines", str(lines)],
            check=True,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
        )
        last: dict[str, Any] = json.loads(lines.read_text().splitlines()[-1])
        return last


if __name__ == "__main__":
    sys.exit(main())
