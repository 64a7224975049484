"""Training programs with DDP719 sharded-by-local-rank, and healthy ones."""

from tests.checks import Sick
from tests.training_programs import training

SICK = (
    Sick(
        evidence=training(
            (
                "DistributedSampler(train_data)",
                "DistributedSampler(train_data, rank=local_rank, num_replicas=dist.get_world_size())",
            )
        ),
        says=(
            "the sampler divides the data by the local rank `local_rank`: ranks of the same number on two "
            "nodes read the same"
        ),
        where=("train.py:35 main",),
    ),
)
HEALTHY = (
    training(
        (
            "DistributedSampler(train_data)",
            "DistributedSampler(train_data, rank=rank, num_replicas=dist.get_world_size())",
        )
    ),
    training(
        (
            "DistributedSampler(train_data)",
            "DistributedSampler(train_data, rank=local_rank, num_replicas=torch.cuda.device_count())",
        )
    ),
)
