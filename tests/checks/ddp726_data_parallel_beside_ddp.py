"""Training programs with DDP726 data-parallel-beside-ddp, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
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
