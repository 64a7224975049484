from ddpdoctor.evidence.launch import Launch
from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun

SICK = (
    Sick(
        evidence=ranks(*[torchrun(rank, 8, local=8, tasks=4, tasks_by="srun") for rank in range(8)], per_host=8),
        says="srun started 4 processes and this one is a torchrun of one node with WORLD_SIZE=8: 4 independent jobs",
        measured={"tasks": 4, "world_size": 8},
    ),
    Sick(
        evidence=ranks(Launch(launcher="torch", rank=0, world_size=1, tasks=2, tasks_by="mpirun")),
        says="mpirun started 2 processes and this one is rank 0 of 1: 2 independent jobs",
        measured={"tasks": 2, "world_size": 1},
    ),
)
HEALTHY = (
    ranks(*[torchrun(rank, 8, local=8, tasks=1, tasks_by="srun") for rank in range(8)], per_host=8),
    ranks(*[torchrun(rank, 8, local=4, tasks=2, tasks_by="srun") for rank in range(8)], per_host=4),
)
