"""Training programs with DDP743 weights-loaded-on-one-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "    best = 0.0\n",
                (
                    "    if rank == 0:\n"
                    "        ddp.module.load_state_dict(torch.load('init.pt', map_location='cpu'))\n"
                    "    best = 0.0\n"
                ),
            )
        ),
        says=(
            "`ddp.module` is loaded inside `if rank == 0` (line 42), after it was wrapped: the other ranks "
            "keep their weights"
        ),
        where=("train.py:43 main", "train.py:40 main"),
    ),
)
HEALTHY = (
    training(
        (
            "    best = 0.0\n",
            ("    ddp.module.load_state_dict(torch.load('init.pt', map_location='cpu'))\n    best = 0.0\n"),
        )
    ),
)
