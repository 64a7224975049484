"""`python -m tests.stream_jobs`: judges many simulated sets and shows those that were not named exactly."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.stream_jobs.judged import Verdict, judge
from tests.stream_jobs.sets import dump_set


def main() -> None:
    """Judge the sets of these seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.stream_jobs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the dumps there")
    options = parser.parse_args()
    found: Counter[tuple[str, Verdict]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(options.seed, options.seed + options.count):
            folder = (options.keep or Path(temporary)) / str(seed)
            folder.mkdir(parents=True, exist_ok=True)
            job = dump_set(seed, folder)
            judgement = judge(job, folder)
            found[job.fault.kind, judgement.verdict] += 1
            if judgement.verdict is not Verdict.EXACT:
                print(f"{seed}: {judgement.verdict.value}: {job.describe()}\n    {judgement.told}", flush=True)
    for kind in sorted({kind for kind, _ in found}):
        print(f"{kind}: {', '.join(f'{found[kind, one]} {one.value}' for one in Verdict)}")
    print(", ".join(f"{sum(times for (_, how), times in found.items() if how is one)} {one.value}" for one in Verdict))


if __name__ == "__main__":
    main()
