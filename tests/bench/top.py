"""What `ddpdoctor top` costs the job that it shows: the reference job with `top` beside it over the same job alone, in pairs.

    python -m tests.bench top

The training time that the job itself measures may be at most 1 % longer, by the median of the pairs. The job is started without
ddpdoctor: its stacks are read from outside, which is the expensive way.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

from ddpdoctor.cli.top import _View
from ddpdoctor.errors import DdpdoctorError
from tests.side_by_side import ALONE, measure

LIMIT = 1.01
PAIRS = int(os.environ.get("PAIRS", "7"))
EVERY_SECONDS = 2.0
BESIDE = "--beside"


def beside(command: list[str]) -> int:
    """Run `command` and sample its ranks as `top` does until it ends; returns its exit code."""
    job = subprocess.Popen(command)
    view = _View(pids=[job.pid], case=None, every=EVERY_SECONDS)
    while job.poll() is None:
        with contextlib.suppress(DdpdoctorError):  # its ranks have not been started yet, or are gone
            view.sample()
            view.shown(80, 24)
        time.sleep(EVERY_SECONDS)
    return job.returncode


def main() -> int:
    """Measure and print; 1 where it is over the limit."""
    if BESIDE in sys.argv:
        return beside(sys.argv[sys.argv.index(BESIDE) + 1 :])
    found = measure({"shown": (sys.executable, "-m", "tests.bench.top", BESIDE, *ALONE)}, rounds=PAIRS)
    ratio = found.ratio("shown")
    print(f"top: median of {PAIRS} pairs {ratio:.3f} (limit {LIMIT:g})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
