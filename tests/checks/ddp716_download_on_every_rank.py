"""Training programs with DDP716 download-on-every-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import source, training

FETCH = """import os

import requests


def fetch(url, name):
    answer = requests.get(url, stream=True)
    with open(name, "wb") as file:
        for part in answer.iter_content(chunk_size=1024):
            file.write(part)


def download(split):
    if not os.path.exists(split):
        fetch(f"https://data.example/{split}", split)


def examples(split):
    download(split)
    yield from open(split)
"""
RUNNER = """import torchvision
from mmengine.runner import Runner


def main(args):
    train = torchvision.datasets.CIFAR10("data", download=True)
    runner = Runner(model=Net(), train_dataloader=dict(dataset=train), launcher=args.launcher)
    runner.train()


main(parse())
"""

_BEHIND_THE_FIRST = """\
@contextmanager
def first(local_rank):
    if local_rank != 0:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()


def fetch():
    datasets.CIFAR10("data", download=True)


def main():
"""
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
    Sick(  # through a generator and two functions of another module
        evidence=training(
            ("import torch\n", "import torch\nfrom fetch import examples\n"),
            ("    best = 0.0\n", '    first = next(examples("train"))\n    best = 0.0\n'),
            fetch=FETCH,
        ),
        says="iter_content runs on every rank at once: ranks read files that another rank is still writing",
        where=("fetch.py:9 fetch", "fetch.py:15 download"),
    ),
    Sick(
        evidence=source(train=RUNNER),
        says=(
            '`download=True` of CIFAR10 runs on every rank at once into "data": ranks read files that '
            "another rank is still writing"
        ),
        where=("train.py:6 main",),
    ),
)
HEALTHY = (
    source(train=RUNNER.replace("launcher=args.launcher", "max_epochs=3")),
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
    training(  # the caller lets the first rank go first
        ("def main():\n", _BEHIND_THE_FIRST),
        (
            '    if local_rank == 0:\n        datasets.CIFAR10("data", download=True)\n    dist.barrier()\n',
            "    with first(local_rank):\n        fetch()\n",
        ),
    ),
)
