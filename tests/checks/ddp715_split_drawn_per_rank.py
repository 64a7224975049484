"""Training programs with DDP715 split-drawn-per-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_ROWS = (
    (
        "def evaluate(",
        (
            "class Rows(torch.utils.data.Dataset):\n"
            "    def __init__(self, rows):\n"
            "        self.rows = rows\n\n"
            "    def __len__(self):\n"
            "        return len(self.rows)\n\n"
            "    def __getitem__(self, number):\n"
            "        return self.rows[number]\n\n\n"
            "def evaluate("
        ),
    ),
    (
        '    train_data = datasets.CIFAR10("data", train=True)\n    val_data = datasets.CIFAR10("data", train=False)\n',
        (
            '    rows = list(open("rows.txt"))\n'
            "    SHUFFLE\n"
            "    train_data, val_data = Rows(rows[:40000]), Rows(rows[40000:])\n"
        ),
    ),
    ("import os\n", "import os\nimport random\n"),
)
"""Rows of a file that are put into an order, and given in two parts to data sets of a class of the program."""
_OWN_GENERATOR = (
    ("    torch.manual_seed(0)\n", ""),
    ("import torch\n", "import numpy as np\nimport torch\n"),
    (
        '    val_data = datasets.CIFAR10("data", train=False)\n',
        (
            "    noise = np.random.default_rng(3).normal(size=8)\n"
            "    order = np.random.permutation(len(train_data))\n"
            "    train_data, val_data = (\n"
            "        torch.utils.data.Subset(train_data, order[:40000].tolist()),\n"
            "        torch.utils.data.Subset(train_data, order[40000:].tolist()),\n"
            "    )\n"
        ),
    ),
)
"""A split by numpy's own generator, beside another generator that has a seed."""
SICK = (
    Sick(
        evidence=training(("    torch.manual_seed(0)\n", ""), *_ROWS, ("SHUFFLE", "random.shuffle(rows)")),
        says=(
            "shuffle draws another split on every rank, as no seed is set in this program: what one rank tests on, "
            "another trains on"
        ),
        where=("train.py:45 main",),
    ),
    Sick(
        evidence=training(*_OWN_GENERATOR),
        says=(
            "permutation draws another split on every rank, as no seed is set in this program: what one rank tests on, "
            "another trains on"
        ),
        where=("train.py:35 main",),
    ),
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
    training(  # the helper's module is not at hand
        *_ROWS,
        ("    torch.manual_seed(0)\n", "    fix_random(42)\n"),
        ("import random\n", "import random\n\nfrom lib.utils import fix_random\n"),
        ("SHUFFLE", "random.shuffle(rows)"),
    ),
    training(
        *_OWN_GENERATOR, ("    noise =", "    np.random.set_state(np.random.RandomState(0).get_state())\n    noise =")
    ),
    training(*_ROWS, ("SHUFFLE", "random.Random(5).shuffle(rows)")),
    training(*_ROWS, ("SHUFFLE", "random.seed(5)\n    random.shuffle(rows)")),
    training(
        *_ROWS,
        ("SHUFFLE", "random.shuffle(rows)"),
        ("Rows(rows[:40000]), Rows(rows[40000:])", "Rows(rows), Rows(list(open('val.txt')))"),
    ),
    training(*_OWN_GENERATOR, ("np.random.permutation(", "np.random.default_rng(3).permutation(")),
    training(*_OWN_GENERATOR, ("    noise =", "    np.random.seed(1)\n    noise =")),
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
