"""Training programs with DDP716 download-on-every-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                ('    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n'),
                '    datasets.CIFAR10("data", download=True)\n',
            )
        ),
        says=(
            '`download=True` of CIFAR10 runs on every rank at once into "data": ranks read files that '
            "another rank is still writing"
        ),
        where=("train.py:30 main",),
    ),
)
HEALTHY = (
    training(
        (
            ('    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n'),
            (
                "    if local_rank != 0:\n"
                "        dist.barrier()\n"
                '    datasets.CIFAR10("data", download=True)\n'
                "    if local_rank == 0:\n"
                "        dist.barrier()\n"
            ),
        )
    ),
    training(
        (
            ('    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n'),
            '    datasets.CIFAR10("data", download=local_rank == 0)\n',
        )
    ),
)
