"""Training programs with DDP740 wrapper-bypassed, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("cross_entropy(ddp(images", "cross_entropy(ddp.module(images")),
        says=(
            "ddp.module is called past its wrapper, and its loss goes into the backward in line 49: "
            "gradients are never reduced, each rank trains alone"
        ),
        where=("train.py:48 main", "train.py:49 main"),
    ),
    Sick(
        evidence=training(("cross_entropy(ddp(images", "cross_entropy(model(images")),
        says=(
            "model is called past its wrapper, and its loss goes into the backward in line 49: gradients "
            "are never reduced, each rank trains alone"
        ),
        where=("train.py:48 main", "train.py:49 main"),
    ),
)
HEALTHY = (training(("evaluate(ddp, val", "evaluate(ddp.module, val")),)
