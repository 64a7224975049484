"""A small transformer alone, under `watch` and under `verify-sync`, in turns: `overhead.json`.

python -m tests.gpu.overhead FOLDER RANKS
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROUNDS = 4
SECONDS = 90.0
TRANSFORMER = str(Path(__file__).parent / "jobs" / "transformer.py")


def main() -> None:
    """Measure and write the seconds of every run, and the median of the ratios of a round."""
    folder, ranks = Path(sys.argv[1]), sys.argv[2]
    measured = folder / "seconds.jsonl"
    measured.unlink(missing_ok=True)
    job = [TRANSFORMER, str(measured)]
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, *job]
    ddpdoctor = [sys.executable, "-m", "ddpdoctor"]
    ways = {
        "alone": launched,
        "watch": [*ddpdoctor, "watch", "--", *launched],
        "verify-sync": [*ddpdoctor, "verify-sync", "--nproc", ranks, *job],
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(ROUNDS + 1):
        for way in list(ways) if turn % 2 else list(reversed(ways)):
            took = _seconds(ways[way], measured, folder / f"{way}.log")
            if turn:  # the first round fills caches
                seconds[way].append(took)
    ratios = {
        way: statistics.median(mine / alone for mine, alone in zip(took, seconds["alone"], strict=True))
        for way, took in seconds.items()
    }
    (folder / "overhead.json").write_text(json.dumps({"seconds": seconds, "ratios": ratios}, indent=1))
    print(json.dumps(ratios))


def _seconds(command: Sequence[str], measured: Path, log: Path) -> float:
    before = len(measured.read_text().splitlines()) if measured.exists() else 0
    with log.open("ab") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS, check=True)
    (line,) = measured.read_text().splitlines()[before:]
    return float(json.loads(line)["seconds"])


if __name__ == "__main__":
    main()
