"""Training programs with DDP713 shuffle-beside-sampler, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=True, sampler=sampler)")),
        says="DataLoader raises ValueError: `shuffle=True` and `sampler=sampler` exclude each other",
        where=("train.py:36 main",),
    ),
)
HEALTHY = (training(("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=(sampler is None), sampler=sampler)")),)
