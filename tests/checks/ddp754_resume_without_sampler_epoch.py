"""Training programs with DDP754 resume-without-sampler-epoch, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

RESUMES = (
    "    for epoch in range(10):\n",
    '    start = torch.load("last.pt", map_location="cpu")["epoch"]\n    for epoch in range(start, 10):\n',
)

SICK = (
    Sick(
        evidence=training(RESUMES, ("set_epoch(epoch)", "set_epoch(epoch - start)")),
        says=(
            "`for epoch in range(start, 10)` goes on at start, and set_epoch(epoch - start) begins at 0: the "
            "orders of the first epochs come again"
        ),
        where=("train.py:45 main", "train.py:44 main"),
    ),
)
HEALTHY = (training(RESUMES),)
