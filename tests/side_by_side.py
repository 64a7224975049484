"""The reference job on two ranks, alone and in the ways that a bench measures, which take turns on the machine."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EPOCHS = 4
TRAIN = str(Path(__file__).parents[1] / "reference_train" / "train.py")
ALONE = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", TRAIN)


@dataclass(frozen=True)
class Measured:
    """The training time that the job itself measures, by way and round, and the digests of weights that were seen."""

    seconds: Mapping[str, Sequence[float]]
    weights: frozenset[str]

    @property
    def same(self) -> bool:
        """Whether the weights were the same in every run, bit by bit."""
        return len(self.weights) == 1

    def ratio(self, way: str) -> float:
        """The median, over the rounds, of how many times as long as alone it takes this way."""
        alone = self.seconds["alone"]
        return statistics.median(mine / its for mine, its in zip(self.seconds[way], alone, strict=True))


def measure(ways: Mapping[str, Sequence[str]], *, rounds: int) -> Measured:
    """Run the job alone and in every way, `rounds` times, one round in this order and the next in the other."""
    everything = {"alone": ALONE, **ways}
    _run(ALONE)  # fills the caches
    seconds: dict[str, list[float]] = {way: [] for way in everything}
    weights = set()
    for turn in range(rounds):
        for way in list(everything) if turn % 2 else list(reversed(everything)):
            last = _run(everything[way])
            seconds[way].append(last["seconds"])
            weights.add(json.dumps(last["weights"]))
        print("  ".join(f"{way} {took[-1]:.2f} s" for way, took in seconds.items()), flush=True)
    return Measured(seconds=seconds, weights=frozenset(weights))


def _run(command: Sequence[str]) -> dict[str, Any]:
    """The last line that the job writes: how long it trained, and the digests of its weights."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        subprocess.run(
            [*command, "--epochs", str(EPOCHS), "--json-lines", str(lines)],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
        )
        last: dict[str, Any] = json.loads(lines.read_text().splitlines()[-1])
        return last
