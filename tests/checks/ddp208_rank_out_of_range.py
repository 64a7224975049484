from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun

SICK = (
    Sick(
        evidence=ranks(torchrun(0, 2), torchrun(2, 2)),
        says="RANK=2 on host-b is not in 0..1 (WORLD_SIZE=2)",
        ranks=(2,),
        hosts=("host-b",),
        measured={"rank": 2, "world_size": 2},
    ),
    Sick(
        evidence=ranks(torchrun(0, 4, local=2), torchrun(1, 4, local=2, local_rank=5), per_host=2),
        says="LOCAL_RANK=5 of rank 1 is not in 0..1 (LOCAL_WORLD_SIZE=2)",
        ranks=(1,),
        hosts=("host-a",),
        measured={"local_rank": 5, "local_world_size": 2},
    ),
)
HEALTHY = (ranks(*[torchrun(rank, 4, local=2) for rank in range(4)], per_host=2),)
