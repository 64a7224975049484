"""What being watched costs: the reference job under `ddpdoctor watch` over the same job alone, in pairs that take turns.

    python -m tests.bench watch

The training time that the job itself measures may be at most 2 % longer, by the median of the pairs, and the weights must
be the same bit by bit.
"""

from __future__ import annotations

import os
import sys

from tests.side_by_side import ALONE, measure

LIMIT = 1.02
PAIRS = int(os.environ.get("PAIRS", "7"))


def main() -> int:
    """Measure and print; 1 where it is over the limit or the weights differ."""
    found = measure({"watched": (sys.executable, "-m", "ddpdoctor", "watch", "--", *ALONE)}, rounds=PAIRS)
    best = {way: min(took) for way, took in found.seconds.items()}
    ratio = found.ratio("watched")
    print(f"watch: best of each {best['watched']:.2f} / {best['alone']:.2f} s")
    print(
        f"watch: median of {PAIRS} pairs {ratio:.3f} (limit {LIMIT:g}); weights {'identical' if found.same else 'DIFFER'}"
    )
    return int(ratio > LIMIT or not found.same)


if __name__ == "__main__":
    sys.exit(main())
