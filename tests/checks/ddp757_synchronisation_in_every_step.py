"""Training programs with DDP757 synchronisation-in-every-step, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("            optimizer.step()\n", ("            optimizer.step()\n            dist.barrier()\n"))
        ),
        says="barrier in every training step: each rank waits there for nothing that the step needs",
        where=("train.py:51 main",),
    ),
)
HEALTHY = (
    training(
        (
            "            optimizer.step()\n",
            (
                "            optimizer.step()\n"
                "            if labels.numel() == 0:\n"
                "                torch.cuda.synchronize()\n"
            ),
        )
    ),
)
