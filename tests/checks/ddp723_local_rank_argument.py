"""Training programs with DDP723 local-rank-argument, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            ("import os\n", ("import argparse\nimport os\n")),
            (
                '    local_rank = int(os.environ["LOCAL_RANK"])\n',
                (
                    "    parser = argparse.ArgumentParser()\n"
                    '    parser.add_argument("--local_rank", type=int, default=0)\n'
                    "    local_rank = parser.parse_args().local_rank\n"
                ),
            ),
        ),
        says="--local_rank is never given by torchrun, and nothing reads LOCAL_RANK: every rank uses device 0",
        where=("train.py:27 main",),
        measured={"default": "0"},
    ),
)
HEALTHY = (
    training(
        ("import os\n", ("import argparse\nimport os\n")),
        (
            '    local_rank = int(os.environ["LOCAL_RANK"])\n',
            (
                "    parser = argparse.ArgumentParser()\n"
                '    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", '
                "0)))\n"
                "    local_rank = parser.parse_args().local_rank\n"
            ),
        ),
    ),
)
