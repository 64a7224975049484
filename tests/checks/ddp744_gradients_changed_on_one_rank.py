"""Training programs with DDP744 gradients-changed-on-one-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "            optimizer.step()\n",
                (
                    "            if rank == 0:\n"
                    "                torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                    "            optimizer.step()\n"
                ),
            )
        ),
        says=(
            "clip_grad_norm_ changes the gradients inside `if rank == 0` (line 50): the ranks step "
            "differently, and their weights part"
        ),
        where=("train.py:51 main",),
    ),
    Sick(
        evidence=training(
            (
                "            optimizer.step()\n",
                (
                    "            if rank == 0:\n"
                    "                weight = ddp.module.fc.weight\n"
                    "                weight.grad[0].zero_()\n"
                    "            optimizer.step()\n"
                ),
            )
        ),
        says=(
            "zero_ changes the gradients inside `if rank == 0` (line 50): the ranks step "
            "differently, and their weights part"
        ),
        where=("train.py:52 main",),
    ),
)
HEALTHY = (
    training(
        (
            "            optimizer.step()\n",
            ("            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n            optimizer.step()\n"),
        )
    ),
)
