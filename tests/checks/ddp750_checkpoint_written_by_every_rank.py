"""Training programs with DDP750 checkpoint-written-by-every-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ("        if rank == 0:\n            print(epoch, accuracy)\n            torch.save("),
                ("        if rank == 0:\n            print(epoch, accuracy)\n        torch.save("),
            )
        ),
        says='every rank writes "last.pt" at once: the file may hold parts of several writes',
        where=("train.py:56 main",),
    ),
)
HEALTHY = (
    training(
        (
            (
                "        if rank == 0:\n"
                "            print(epoch, accuracy)\n"
                '            torch.save(ddp.module.state_dict(), "last.pt")'
            ),
            '        torch.save(ddp.module.state_dict(), f"last-{rank}.pt")',
        )
    ),
)
