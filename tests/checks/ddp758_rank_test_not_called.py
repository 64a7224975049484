"""Training programs with DDP758 rank-test-not-called, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("        if rank == 0:\n", "        if is_main_process:\n"),
            ("def main():", ("def is_main_process():\n    return dist.get_rank() == 0\n\n\ndef main():")),
        ),
        says="`is_main_process` is a function and always true: every rank takes this branch",
        where=("train.py:58 main",),
        also=("DDP750", "DDP755"),
    ),
    Sick(
        evidence=training(
            (
                "        if rank == 0:\n",
                "        if not is_main_process:\n            continue\n        if rank == 0:\n",
            ),
            ("        dist.barrier()\n    dist.destroy", "    dist.destroy"),
            ("def main():", "def is_main_process():\n    return dist.get_rank() == 0\n\n\ndef main():"),
        ),
        says="`is_main_process` is a function and always true: every rank takes this branch",
        where=("train.py:58 main",),
    ),
    Sick(
        evidence=training(
            ("        if rank == 0:\n", "        if D.primary:\n"),
            ("import torch\n", "import comm as D\nimport torch\n"),
            comm="import torch.distributed as dist\n\n\ndef primary():\n    return dist.get_rank() == 0\n",
        ),
        says="`D.primary` is a function and always true: every rank takes this branch",
        where=("train.py:55 main",),
        also=("DDP750", "DDP755"),
    ),
    Sick(
        evidence=training(
            ("        if rank == 0:\n", "        if Role().main:\n"),
            ("def main():", "class Role:\n    def main(self):\n        return dist.get_rank() == 0\n\n\ndef main():"),
        ),
        says="`Role().main` is a function and always true: every rank takes this branch",
        where=("train.py:59 main",),
        also=("DDP750", "DDP755"),
    ),
)
HEALTHY = (
    training(
        ("        if rank == 0:\n", "        if is_main_process():\n"),
        ("def main():", ("def is_main_process():\n    return dist.get_rank() == 0\n\n\ndef main():")),
    ),
)
