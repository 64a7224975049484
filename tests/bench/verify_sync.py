"""What being followed costs: the reference job under `ddpdoctor verify-sync` over the same job alone, in turns.

    python -m tests.bench verify_sync

The training time that the job itself measures may be at most 3 % longer with the default settings and 60 % with
`--every 1`, by the median of the rounds, and the weights must be the same bit by bit.
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

LIMITS = {"default": 1.03, "--every 1": 1.60}
ROUNDS = int(os.environ.get("ROUNDS", "5"))
EPOCHS = 4
TRAIN = Path(__file__).parents[2] / "reference_train" / "train.py"
ALONE = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(TRAIN))
FOLLOWED = (sys.executable, "-m", "ddpdoctor", "verify-sync", "--nproc", "2")
WAYS = {
    "alone": ALONE,
    "default": (*FOLLOWED, str(TRAIN)),
    "--every 1": (*FOLLOWED, "--every", "1", str(TRAIN)),
}


def main() -> int:
    """Measure and print; 1 where it is over a limit or the weights differ."""
    run(ALONE)  # fills the caches
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    weights = set()
    for turn in range(ROUNDS):
        names = list(WAYS) if turn % 2 else list(reversed(WAYS))
        for way in names:
            last = run(WAYS[way])
            seconds[way].append(last["seconds"])
            weights.add(json.dumps(last["weights"]))
        print("  ".join(f"{way} {took[-1]:.2f} s" for way, took in seconds.items()), flush=True)
    over = False
    for way, limit in LIMITS.items():
        ratio = statistics.median(mine / alone for mine, alone in zip(seconds[way], seconds["alone"], strict=True))
        over |= ratio > limit
        print(f"verify-sync, {way}: median of {ROUNDS} rounds {ratio:.3f} times as long as alone (limit {limit:g})")
    print(f"weights {'identical' if len(weights) == 1 else 'DIFFER'}")
    return int(over or len(weights) > 1)


def run(command: tuple[str, ...]) -> dict[str, Any]:
    """The last line that the job writes: how long it trained, and the digests of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        subprocess.run(
            [*command, "--epochs", str(EPOCHS), "--json-lines", str(lines)],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
        )
        last: dict[str, Any] = json.loads(lines.read_text().splitlines()[-1])
        return last


if __name__ == "__main__":
    sys.exit(main())
