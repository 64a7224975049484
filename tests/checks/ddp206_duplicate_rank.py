from dataclasses import replace

from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun

FOUR = [torchrun(rank, 4) for rank in range(4)]

SICK = (
    Sick(
        evidence=ranks(FOUR[0], FOUR[1], replace(FOUR[2], rank=1, agent_rank=1), FOUR[3]),
        says="2 processes claim rank 1, on host-b and host-c",
        ranks=(1,),
        hosts=("host-b", "host-c"),
    ),
)
HEALTHY = (ranks(*FOUR),)
