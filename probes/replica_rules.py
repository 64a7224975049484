"""`replica_rules.py DIRECTORY`: asks the rules about replicas, for `watch`, which then need not hold the traces of all ranks.

The exit code is 0 where nothing was found, FOUND where something was.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ddpdoctor.workflows.watch.judging_process import FOUND
from ddpdoctor.workflows.watch.replica_audit import ReplicaAudit


def main() -> int:
    """Judge what the ranks have kept of their traces in the directory."""
    return 0 if ReplicaAudit(Path(sys.argv[1])).judge() is None else FOUND


if __name__ == "__main__":
    sys.exit(main())
