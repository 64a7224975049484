"""What `ddpdoctor top` costs the job that it shows: the reference job with `top` beside it over the same job alone, in pairs.

    python -m tests.bench top

The training time that the job itself measures may be at most 1 % longer, by the median of the pairs. The job is started without
ddpdoctor: its stacks are read from outside, which is the expensive way. Pairs differ by several percent on a busy machine;
the share of the CPUs that `top` itself takes, py-spy included, does not, and is what it can take from a job that uses them all.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ddpdoctor.cli.top import _View
from ddpdoctor.errors import DdpdoctorError
from tests.side_by_side import ALONE, measure

LIMIT = 1.01
PAIRS = int(os.environ.get("PAIRS", "7"))
EVERY_SECONDS = 2.0
BESIDE = "--beside"
SHARES = "DDPDOCTOR_BENCH_SHARES"  # the file to which each run adds its share


def beside(command: list[str]) -> int:
    """Run `command` and sample its ranks as `top` does until it ends; returns its exit code."""
    own, began = used(), time.monotonic()
    job = subprocess.Popen(command)
    view, spent, samples = _View(pids=[job.pid], case=None, every=EVERY_SECONDS), 0.0, 0
    while job.poll() is None:
        with contextlib.suppress(DdpdoctorError):  # its ranks have not been started yet, or are gone
            view.sample()
            view.shown(80, 24)
            samples += 1
        spent, seconds = used() - own, time.monotonic() - began  # the job is not counted: it has not been waited for
        time.sleep(EVERY_SECONDS)
    with Path(os.environ[SHARES]).open("a") as file:
        file.write(json.dumps({"share": spent / seconds / (os.cpu_count() or 1), "samples": samples}) + "\n")
    return job.returncode


def used() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    each = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in each)


def main() -> int:
    """Measure and print; 1 where it is over the limit."""
    if BESIDE in sys.argv:
        return beside(sys.argv[sys.argv.index(BESIDE) + 1 :])
    with tempfile.NamedTemporaryFile() as shares:
        os.environ[SHARES] = shares.name
        found = measure({"shown": (sys.executable, "-m", "tests.bench.top", BESIDE, *ALONE)}, rounds=PAIRS)
        runs = [json.loads(line) for line in Path(shares.name).read_text().splitlines()]
    ratio, share = found.ratio("shown"), statistics.median(run["share"] for run in runs)
    print(f"top: median of {PAIRS} pairs {ratio:.3f} (limit {LIMIT:g})")
    print(f"top itself: {share:.2%} of the CPUs (median; {min(run['samples'] for run in runs)} samples a run or more)")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
