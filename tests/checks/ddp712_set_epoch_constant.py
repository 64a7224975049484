"""Training programs with DDP712 set-epoch-constant, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_OPTIONS = ("import os\n", "import argparse\nimport os\n")
_PARSED = (
    "def main():\n",
    (
        "def main():\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--epochs', type=int, default=10)\n"
        "    parser.add_argument('--start', type=int, default=0)\n"
        "    a = parser.parse_args()\n"
    ),
)
"""A program whose options are in `a`."""
SICK = (
    Sick(
        evidence=training(("sampler.set_epoch(epoch)", "sampler.set_epoch(0)")),
        says="set_epoch always gets 0: `for epoch in range(10)` sees the same order again",
        where=("train.py:44 main", "train.py:43 main"),
    ),
    Sick(
        evidence=training(
            ("        sampler.set_epoch(epoch)\n", ""),
            ("        accuracy = evaluate", ("        sampler.set_epoch(epoch)\n        accuracy = evaluate")),
        ),
        says=(
            "set_epoch(epoch) comes after the batches of the epoch, so that the first two epochs have one "
            "order: `for epoch in range(10)` sees the same order again"
        ),
        where=("train.py:50 main", "train.py:43 main"),
    ),
    Sick(
        evidence=training(
            _OPTIONS,
            _PARSED,
            ("for epoch in range(10)", "for epoch in range(a.epochs)"),
            ("sampler.set_epoch(epoch)", "sampler.set_epoch(a.epochs)"),
        ),
        says="set_epoch(a.epochs) gets the same number in every turn: `for epoch in range(a.epochs)` sees the same order again",
        where=("train.py:49 main", "train.py:48 main"),
    ),
)
HEALTHY = (
    training(
        _OPTIONS,
        _PARSED,
        ("sampler.set_epoch(epoch)", "sampler.set_epoch(a.start)"),
        ("        dist.barrier()\n", "        a.start += 1\n        dist.barrier()\n"),
    ),
    training(
        ("        sampler.set_epoch(epoch)\n", ""),
        ("        accuracy = evaluate", ("        sampler.set_epoch(epoch + 1)\n        accuracy = evaluate")),
    ),
)
