"""Training programs with DDP712 set-epoch-constant, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

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
)
HEALTHY = (
    training(
        ("        sampler.set_epoch(epoch)\n", ""),
        ("        accuracy = evaluate", ("        sampler.set_epoch(epoch + 1)\n        accuracy = evaluate")),
    ),
)
