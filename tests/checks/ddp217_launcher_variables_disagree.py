from ddpdoctor.evidence.launch import Claim, Launch
from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun

SLURM = Claim(launcher="Slurm", rank=0, world_size=2, local_rank=0, local_world_size=None, node_rank=0)

SICK = (
    Sick(
        evidence=ranks(torchrun(0, 2, agent_rank=1, claims=(SLURM,))),
        says="rank 0: torchrun set RANK=1 WORLD_SIZE=2, but the environment now has RANK=0 WORLD_SIZE=2, the values of Slurm",
        ranks=(0,),
    ),
    Sick(
        evidence=ranks(*[torchrun(rank, 16, local=8, tasks=16, tasks_by="srun") for rank in range(2)], per_host=8),
        says="ranks 0-1: srun started 16 processes, each of them a torchrun that expects 2 nodes",
        ranks=(0, 1),
    ),
    Sick(
        evidence=ranks(
            *[Launch(launcher="torch", rank=rank, world_size=8, tasks=4, tasks_by="mpirun") for rank in range(4)]
        ),
        says="ranks 0-3: WORLD_SIZE=8 is set, but mpirun started 4 processes",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (
    ranks(*[torchrun(rank, 16, local=8, tasks=2, tasks_by="srun") for rank in range(16)], per_host=8),
    ranks(*[torchrun(rank, 4, local=4, tasks=1, tasks_by="srun") for rank in range(4)], per_host=4),
    ranks(*[Launch(launcher="torch", rank=rank, world_size=4, tasks=4, tasks_by="mpirun") for rank in range(4)]),
    ranks(*[torchrun(rank, 2, local=2) for rank in range(2)], per_host=2),
)
