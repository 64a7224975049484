"""Fewer ranks than GPUs, and as many."""

from tests.checks import Sick
from tests.launch_files import script

HEAD = "#!/bin/bash\n#SBATCH --gpus-per-node=a100:8\n#SBATCH --cpus-per-task=32\n"

SICK = (
    Sick(
        evidence=script(f"{HEAD}torchrun --standalone --nproc-per-node=4 train.py\n"),
        says="the job asks for 8 GPUs per node, and torchrun starts 4 ranks there",
        where=("job.sh:4", "job.sh:2"),
        measured={"ranks_per_node": 4, "gpus": 8},
    ),
    Sick(
        evidence=script(f"{HEAD}srun -c 32 --gres=gpu:2 torchrun --standalone train.py\n"),
        says="the job asks for 2 GPUs per node, and torchrun starts 1 rank there",
        where=("job.sh:4",),
        measured={"ranks_per_node": 1, "gpus": 2},
    ),
)
HEALTHY = (
    script(f"{HEAD}torchrun --standalone --nproc-per-node=8 train.py\n"),
    script(f"{HEAD}torchrun --standalone --nproc-per-node=gpu train.py\n"),
    script(  # two jobs share the node
        f"{HEAD}torchrun --nproc-per-node=4 --rdzv-endpoint localhost:0 a.py &\n"
        "torchrun --nproc-per-node=4 --rdzv-endpoint localhost:0 b.py &\nwait\n"
    ),
)
