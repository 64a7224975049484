"""Training programs with DDP726 data-parallel-beside-ddp, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

_BELOW = """\
class Average:
    def __init__(self, model):
        self.runner = build(model)


def build(model):
    return nn.DataParallel(model)


def main():
"""
_AVERAGED = ("    best = 0.0\n", "    average = Average(model)\n    best = 0.0\n")
SICK = (
    Sick(
        evidence=training(("def main():\n", _BELOW), _AVERAGED),
        says=(
            "every rank wraps a model in nn.DataParallel though line 36 made a process group: each of them uses every GPU"
        ),
        where=("train.py:29 build", "train.py:36 main"),
    ),
    Sick(
        evidence=training(("    ddp = DDP(model, device_ids=[local_rank])", "    ddp = DDP(nn.DataParallel(model))")),
        says=(
            "every rank wraps a model in nn.DataParallel though line 27 made a process group: each of them uses every GPU"
        ),
        where=("train.py:40 main", "train.py:27 main"),
    ),
)
HEALTHY = (
    training(
        ("def main():\n", _BELOW),
        ("    best = 0.0\n", "    if not dist.is_initialized():\n        average = Average(model)\n    best = 0.0\n"),
    ),
    training(
        ("    best = 0.0\n", "    average = nn.DataParallel(model, device_ids=[local_rank])\n    best = 0.0\n"),
    ),
    training(
        (
            "    ddp = DDP(model, device_ids=[local_rank])",
            (
                "    if dist.is_initialized():\n"
                "        ddp = DDP(model, device_ids=[local_rank])\n"
                "    else:\n"
                "        ddp = nn.DataParallel(model)"
            ),
        )
    ),
)
