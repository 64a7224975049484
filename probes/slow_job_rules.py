"""`slow_job_rules.py DIRECTORY TIMES`: asks the rules about slow ranks, for `watch`, which then need not hold the recorders.

TIMES is the ranks' processor times, as `processor_time.as_text` writes them. The exit code is 0 where nothing was found,
FOUND where something was; samples of the slow ranks' stacks then stand in DIRECTORY.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from ddpdoctor.ranks.processor_time import from_text
from ddpdoctor.workflows.slow_job_check import look_at_slow_ranks
from ddpdoctor.workflows.watch.judging_process import FOUND


def main() -> int:
    """Judge the pace of the ranks whose agents write to the directory."""
    found = look_at_slow_ranks(Path(sys.argv[1]), socket.gethostname(), from_text(sys.argv[2]))
    return FOUND if found else 0


if __name__ == "__main__":
    sys.exit(main())
