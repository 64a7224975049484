"""Training programs with DDP720 device-from-global-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(("set_device(local_rank)", "set_device(rank)")),
        says=(
            "set_device gets the global rank `rank`: rank 8 on the second node of 8 GPUs asks for GPU 8, "
            "which is not there"
        ),
        where=("train.py:26 main",),
    ),
    Sick(
        evidence=training(("device_ids=[local_rank]", "device_ids=[dist.get_rank()]")),
        says=(
            "DistributedDataParallel gets the global rank `[dist.get_rank()]`: rank 8 on the second node of "
            "8 GPUs asks for GPU 8, which is not there"
        ),
        where=("train.py:40 main",),
    ),
)
HEALTHY = (training(("set_device(local_rank)", "set_device(rank % torch.cuda.device_count())")),)
