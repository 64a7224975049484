"""Print how `diagnose` reads a collection of logs, by class of failure.

python -m tests.posted_logs [FOLDER]

FOLDER has a truth.json and the logs it names; without it, the collection beside this file.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.posted_logs.scoring import COLLECTION, score, truths


def main() -> None:
    """One line for each log that is not exact, one for each class, and the sum."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else COLLECTION
    scores = [score(truth, folder) for truth in truths(folder)]
    for each in scores:
        if each.grade != "exact":
            print(f"{each.grade:7} {each.truth.name}: {each.why}")
    print(f"{'':24}{'exact':>7}{'code':>7}{'wrong':>7}{'silent':>7}")
    for group in [*sorted({each.truth.group for each in scores}), ""]:
        counts = Counter(each.grade for each in scores if group in {"", each.truth.group})
        print(f"{group or 'all':24}" + "".join(f"{counts[grade]:>7}" for grade in ("exact", "code", "wrong", "silent")))
    failed = [each for each in scores if not each.truth.healthy]
    first = sum(each.first_choice for each in failed)
    print(
        f"first choice {first} of {len(failed)}; failures with exit code 0: {sum(not each.exit_code for each in failed)}"
    )


if __name__ == "__main__":
    main()
