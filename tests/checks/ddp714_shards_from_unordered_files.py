"""Training programs with DDP714 shards-from-unordered-files, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "    torch.manual_seed(0)\n",
                (
                    "    torch.manual_seed(0)\n"
                    "    files = os.listdir('shards')[rank :: dist.get_world_size()]\n"
                    "    print(len(files), rank)\n"
                ),
            )
        ),
        says=(
            "`os.listdir('shards')[rank :: dist.get_world_size()]` cuts a list by the rank whose order "
            "os.listdir() does not fix: on other hosts it differs, so that samples overlap or are lost"
        ),
        where=("train.py:30 main",),
    ),
)
HEALTHY = (
    training(
        (
            "    torch.manual_seed(0)\n",
            (
                "    torch.manual_seed(0)\n"
                "    files = sorted(os.listdir('shards'))[rank :: dist.get_world_size()]\n"
                "    print(len(files), rank)\n"
            ),
        )
    ),
)
