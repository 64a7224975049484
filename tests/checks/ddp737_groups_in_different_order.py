"""Training programs with DDP737 groups-in-different-order, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "    torch.manual_seed(0)\n",
                (
                    "    torch.manual_seed(0)\n"
                    "    rows, columns = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
                    "    one = torch.ones(1, device=device)\n"
                    "    if rank == 0:\n"
                    "        dist.all_reduce(one, group=rows)\n"
                    "        dist.all_reduce(one, group=columns)\n"
                    "    else:\n"
                    "        dist.all_reduce(one, group=columns)\n"
                    "        dist.all_reduce(one, group=rows)\n"
                ),
            )
        ),
        says=(
            "under `if rank == 0` the groups come as rows, columns, and in the other branch as columns, "
            "rows: each side waits for the other"
        ),
        where=("train.py:33 main", "train.py:36 main"),
    ),
)
HEALTHY = (
    training(
        (
            "    torch.manual_seed(0)\n",
            (
                "    torch.manual_seed(0)\n"
                "    rows, columns = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
                "    one = torch.ones(1, device=device)\n"
                "    if rank == 0:\n"
                "        dist.all_reduce(one, group=rows)\n"
                "        dist.all_reduce(one, group=columns)\n"
                "    else:\n"
                "        dist.all_reduce(one, group=rows)\n"
                "        dist.all_reduce(one, group=columns)\n"
            ),
        )
    ),
)
