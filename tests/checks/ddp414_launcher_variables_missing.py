from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables
from tests.rank_ends import ended, raised

ALL = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}

SICK = (
    Sick(
        evidence=one_host(variables(RANK="0", WORLD_SIZE="2")),
        says="RANK, WORLD_SIZE are set, but not MASTER_ADDR, MASTER_PORT",
        measured={"missing": ["MASTER_ADDR", "MASTER_PORT"]},
    ),
    Sick(
        evidence=ranks(variables(**ALL), variables(WORLD_SIZE="2")),
        says="WORLD_SIZE is set on rank 1, but not RANK, MASTER_ADDR, MASTER_PORT",
        ranks=(1,),
        measured={"missing": ["RANK", "MASTER_ADDR", "MASTER_PORT"]},
    ),
    Sick(
        evidence=ended(
            raised(
                "Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set"
            )
        ),
        says="RANK was not set on rank 0, and init_process_group needs it",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"missing": ["RANK"]},
    ),
)
HEALTHY = (
    one_host(variables(**ALL)),
    one_host(variables()),
    one_host(variables(MASTER_ADDR="10.0.0.1", MASTER_PORT="29500")),
    one_host(variables(WORLD_SIZE="8", SLURM_PROCID="3")),
)
