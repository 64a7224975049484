"""Training programs with DDP728 rank-from-local-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                'init_process_group("nccl")',
                'init_process_group("nccl", rank=local_rank, world_size=int(os.environ["WORLD_SIZE"]))',
            )
        ),
        says="`rank=local_rank` is the local rank: the first ranks of two nodes both claim rank 0",
        where=("train.py:27 main",),
    ),
)
HEALTHY = (
    training(
        (
            'init_process_group("nccl")',
            'init_process_group("nccl", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))',
        )
    ),
    training(
        (
            'init_process_group("nccl")',
            'init_process_group("nccl", rank=local_rank, world_size=torch.cuda.device_count())',
        )
    ),
)
