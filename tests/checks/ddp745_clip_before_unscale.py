"""Training programs with DDP745 clip-before-unscale, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ("            loss.backward()\n            optimizer.step()\n"),
                (
                    "            scaler.scale(loss).backward()\n"
                    "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                    "            scaler.step(optimizer)\n"
                    "            scaler.update()\n"
                ),
            ),
            ("    best = 0.0\n", ("    scaler = torch.amp.GradScaler()\n    best = 0.0\n")),
        ),
        says=(
            "clip_grad_norm_ clips gradients that `scaler.scale` has multiplied, and nothing unscales them "
            "before: the threshold is wrong by the loss scale"
        ),
        where=("train.py:51 main", "train.py:50 main"),
    ),
)
HEALTHY = (
    training(
        (
            ("            loss.backward()\n            optimizer.step()\n"),
            (
                "            scaler.scale(loss).backward()\n"
                "            scaler.unscale_(optimizer)\n"
                "            torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)\n"
                "            scaler.step(optimizer)\n"
                "            scaler.update()\n"
            ),
        ),
        ("    best = 0.0\n", ("    scaler = torch.amp.GradScaler()\n    best = 0.0\n")),
    ),
)
