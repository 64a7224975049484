from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun

SICK = (
    Sick(
        evidence=ranks(torchrun(0, 4), torchrun(1, 4), torchrun(2, 4), torchrun(3, 5)),
        says="WORLD_SIZE is 4 on ranks 0-2, 5 on rank 3",
        ranks=(3,),
    ),
    Sick(
        evidence=ranks(torchrun(0, 2), torchrun(1, 3)),
        says="WORLD_SIZE is 2 on rank 0, 3 on rank 1; neither has a majority",
        ranks=(0, 1),
    ),
)
HEALTHY = (ranks(torchrun(0, 2), torchrun(1, 2)),)
