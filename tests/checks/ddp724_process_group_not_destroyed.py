"""Training programs with DDP724 process-group-not-destroyed, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("    dist.destroy_process_group()\n", "")),
        says="nothing destroys this process group: the program's end may hang, and NCCL warns of leaks",
        where=("train.py:27 main",),
    ),
)
HEALTHY = (training(("print(epoch, accuracy)", "print(epoch, accuracy, flush=True)")),)
