"""What being followed costs: the reference job under `ddpdoctor verify-sync` over the same job alone, in turns.

    python -m tests.bench verify_sync

The training time that the job itself measures may be at most 3 % longer with the default settings and 60 % with
`--every 1`, by the median of the rounds, and the weights must be the same bit by bit.
"""

from __future__ import annotations

import os
import sys

from tests.side_by_side import TRAIN, measure

LIMITS = {"default": 1.03, "--every 1": 1.60}
ROUNDS = int(os.environ.get("ROUNDS", "5"))
FOLLOWED = (sys.executable, "-m", "ddpdoctor", "verify-sync", "--nproc", "2")


def main() -> int:
    """Measure and print; 1 where it is over a limit or the weights differ."""
    found = measure({"default": (*FOLLOWED, TRAIN), "--every 1": (*FOLLOWED, "--every", "1", TRAIN)}, rounds=ROUNDS)
    for way, limit in LIMITS.items():
        print(
            f"verify-sync, {way}: median of {ROUNDS} rounds {found.ratio(way):.3f} times as long as alone (limit {limit:g})"
        )
    print(f"weights {'identical' if found.same else 'DIFFER'}")
    return int(any(found.ratio(way) > limit for way, limit in LIMITS.items()) or not found.same)


if __name__ == "__main__":
    sys.exit(main())
