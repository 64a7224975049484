"""Measure what the reference job reaches, seed by seed: the figures in ddpdoctor/analysis/performance/reference_accuracy.py.

    python -m tests.reference_train.accuracy train.py --epochs 3 [--seeds 1 2 3 4 5] [--ranks 1] [OPTION OF THE JOB...]

Prints a line a seed, then all accuracies as that file has them. One thread a rank, so that a core is enough for one process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.reference_train.launching import ended, start_ranks

SECONDS = 3600.0


def main() -> None:
    """Measure the rows that the command line asks for."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("program", choices=("train.py", "recipe.py"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--ranks", type=int, default=1)
    asked, options = parser.parse_known_args()
    found = []
    for seed in asked.seeds:
        end = result(asked.program, "--seed", str(seed), *options, ranks=asked.ranks)
        found.append(end["accuracy"])
        print(
            f"seed {seed}, {asked.ranks} ranks: {end['accuracy']:.4f} of {end['test_samples']} on {end['dataset']}, "
            f"{end['seconds']:.0f} s, weights {end['weights'][0]}",
            flush=True,
        )
    print(f"{asked.program} {' '.join(options)}, torch {torch.__version__}: {tuple(found)}")


def result(program: str, *options: str, ranks: int) -> dict[str, Any]:
    """The last event of a run."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        for code, _, said in ended(
            start_ranks(program, *options, "--json-lines", str(log), ranks=ranks), seconds=SECONDS
        ):
            assert code == 0, said
        return json.loads(log.read_text().splitlines()[-1])


if __name__ == "__main__":
    main()
