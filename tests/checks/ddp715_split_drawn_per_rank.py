"""Training programs with DDP715 split-drawn-per-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("    torch.manual_seed(0)\n", ""),
            (
                '    val_data = datasets.CIFAR10("data", train=False)\n',
                "    train_data, val_data = torch.utils.data.random_split(train_data, [40000, 10000])\n",
            ),
        ),
        says=(
            "random_split draws another split on every rank, as no seed is set in this program: what one "
            "rank tests on, another trains on"
        ),
        where=("train.py:33 main",),
    ),
)
HEALTHY = (
    training(
        (
            '    val_data = datasets.CIFAR10("data", train=False)\n',
            "    train_data, val_data = torch.utils.data.random_split(train_data, [40000, 10000])\n",
        )
    ),
    training(
        ("    torch.manual_seed(0)\n", ""),
        (
            '    val_data = datasets.CIFAR10("data", train=False)\n',
            (
                "    halves = torch.Generator().manual_seed(7)\n"
                "    train_data, val_data = torch.utils.data.random_split(train_data, [40000, 10000], "
                "generator=halves)\n"
            ),
        ),
    ),
)
