"""Training programs with DDP759 run-folder-by-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("    best = 0.0\n", ("    os.makedirs(f\"runs/{time.strftime('%H%M%S')}\")\n    best = 0.0\n")),
            ("import os\n", ("import os\nimport time\n")),
        ),
        says=(
            "each rank makes `f\"runs/{time.strftime('%H%M%S')}\"` by its own time.strftime(): ranks that "
            "start in different seconds write to different folders"
        ),
        where=("train.py:43 main",),
    ),
)
HEALTHY = (
    training(
        (
            "    best = 0.0\n",
            ("    os.makedirs(f\"runs/{os.environ['TORCHELASTIC_RUN_ID']}\", exist_ok=True)\n    best = 0.0\n"),
        )
    ),
)
