"""Training programs with DDP734 new-group-by-members-only, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "    torch.manual_seed(0)\n",
                (
                    "    torch.manual_seed(0)\n"
                    "    if rank in (0, 1):\n"
                    "        pair = dist.new_group([0, 1])\n"
                    "        print(pair, rank)\n"
                ),
            )
        ),
        says=(
            "new_group is called inside `if rank in (0, 1)` (line 30): the ranks that take the branch wait "
            "for the others, which never call it"
        ),
        where=("train.py:31 main",),
    ),
)
HEALTHY = (
    training(
        (
            "    torch.manual_seed(0)\n",
            (
                "    torch.manual_seed(0)\n"
                "    pair = dist.new_group([0, 1])\n"
                "    if rank in (0, 1):\n"
                "        print(pair, rank)\n"
            ),
        )
    ),
)
