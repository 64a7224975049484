"""Training programs with DDP736 rank-zero-work-beside-timeout, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

ON_ONE_RANK = (
    "        if rank == 0:\n            print(",
    (
        "        if rank == 0:\n"
        "            for images, labels in val_loader:\n"
        "                ddp.module(images.to(device))\n"
        "        if rank == 0:\n"
        "            print("
    ),
)

_CUT = """\
def cut(scenes):
    with ProcessPoolExecutor(16) as pool:
        list(pool.map(print, scenes))


def main():
"""
SICK = (
    Sick(  # the work is divided among processes of one rank
        evidence=training(
            ("import os\n", "import os\nfrom concurrent.futures import ProcessPoolExecutor\n"),
            ("def main():\n", _CUT),
            ('        datasets.CIFAR10("data", download=True)\n', "        cut(os.environ)\n"),
        ),
        says=(
            "`ProcessPoolExecutor(16)` runs on one rank, inside `if local_rank == 0` (line 36), while the "
            "others wait in line 38: after the default timeout, 10 minutes with NCCL and 30 with gloo, they "
            "end the job"
        ),
        where=("train.py:25 cut", "train.py:38 main"),
    ),
    Sick(
        evidence=training(ON_ONE_RANK),
        says=(
            "`for images, labels in val_loader` runs on one rank, inside `if rank == 0` (line 54), while the "
            "others wait in line 60: after the default timeout, 10 minutes with NCCL and 30 with gloo, they "
            "end the job"
        ),
        where=("train.py:55 main", "train.py:60 main"),
    ),
)
HEALTHY = (
    training(
        ON_ONE_RANK, ('dist.init_process_group("nccl")', 'dist.init_process_group("nccl", timeout=timedelta(hours=3))')
    ),
)
