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
    Sick(
        evidence=training(
            ("    torch.manual_seed(0)\n", ""),
            (
                '    train_data = datasets.CIFAR10("data", train=True)\n',
                (
                    "    rows = torch.arange(50000)\n    rows = rows[torch.randperm(len(rows))]\n"
                    "    mine = rows.chunk(dist.get_world_size())[rank]\n"
                    '    train_data = torch.utils.data.Subset(datasets.CIFAR10("data", train=True), mine)\n'
                ),
            ),
            ("    sampler = DistributedSampler(train_data)\n", ""),
            ("        sampler.set_epoch(epoch)\n", ""),
            ("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=True, drop_last=True)"),
        ),
        says=(
            "randperm draws another split on every rank, as no seed is set in this program: what one rank tests on, "
            "another trains on"
        ),
        where=("train.py:33 main", "train.py:34 main"),
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
    training(
        (
            '    train_data = datasets.CIFAR10("data", train=True)\n',
            (
                "    rows = torch.arange(50000)\n"
                "    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(3))]\n"
                "    mine = rows.chunk(dist.get_world_size())[rank]\n"
                '    train_data = torch.utils.data.Subset(datasets.CIFAR10("data", train=True), mine)\n'
            ),
        ),
        ("    sampler = DistributedSampler(train_data)\n", ""),
        ("        sampler.set_epoch(epoch)\n", ""),
        ("batch_size=64, sampler=sampler)", "batch_size=64, shuffle=True, drop_last=True)"),
    ),
)
