"""Training programs with DDP747 scheduler-from-local-metric, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("            optimizer.step()\n", ("            optimizer.step()\n        scheduler.step(loss)\n")),
            (
                "    best = 0.0\n",
                ("    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n    best = 0.0\n"),
            ),
        ),
        says=("`scheduler` lowers the learning rate by `loss`, which is another on each rank: learning rates part"),
        where=("train.py:52 main",),
    ),
)
HEALTHY = (
    training(
        ("        if accuracy > best:\n", ("        scheduler.step(accuracy)\n        if accuracy > best:\n")),
        (
            "    best = 0.0\n",
            ("    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n    best = 0.0\n"),
        ),
    ),
)
