"""Training programs with DDP738 object-collective-device, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("    torch.cuda.set_device(local_rank)\n", ""),
            (
                "    torch.manual_seed(0)\n",
                (
                    "    torch.manual_seed(0)\n"
                    "    names = [None] * dist.get_world_size()\n"
                    "    dist.all_gather_object(names, os.uname().nodename)\n"
                ),
            ),
        ),
        says=(
            "all_gather_object over NCCL moves its objects through the current GPU, and no rank has set "
            "one: all use GPU 0"
        ),
        where=("train.py:30 main", "train.py:26 main"),
    ),
)
HEALTHY = (
    training(
        (
            "    torch.manual_seed(0)\n",
            (
                "    torch.manual_seed(0)\n"
                "    names = [None] * dist.get_world_size()\n"
                "    dist.all_gather_object(names, os.uname().nodename)\n"
            ),
        )
    ),
)
