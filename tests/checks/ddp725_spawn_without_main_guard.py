"""Training programs with DDP725 spawn-without-main-guard, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source

SICK = (
    Sick(
        evidence=source(
            train=(
                "import torch.distributed as dist\n"
                "import torch.multiprocessing as mp\n"
                "\n"
                "\n"
                "def work(rank, ranks):\n"
                '    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=ranks)\n'
                "    dist.destroy_process_group()\n"
                "\n"
                "\n"
                "mp.spawn(work, args=(2,), nprocs=2)\n"
            )
        ),
        says=(
            'no `if __name__ == "__main__":` guards this: each process that is spawned imports the file and '
            "spawns again"
        ),
        where=("train.py:10 <module>",),
    ),
)
HEALTHY = (
    source(
        train=(
            "import torch.distributed as dist\n"
            "import torch.multiprocessing as mp\n"
            "\n"
            "\n"
            "def work(rank, ranks):\n"
            '    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=ranks)\n'
            "    dist.destroy_process_group()\n"
            "\n"
            "\n"
            'if __name__ == "__main__":\n'
            "    mp.spawn(work, args=(2,), nprocs=2)\n"
        )
    ),
)
