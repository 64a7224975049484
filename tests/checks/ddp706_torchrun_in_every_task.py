"""A task per GPU with torchrun in each, and one torchrun per node."""

from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import script

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n#SBATCH --ntasks-per-node=4\n#SBATCH --cpus-per-task=8\n"
RANKS = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint $(scontrol show hostnames | head -n 1):0"

SICK = (
    Sick(
        evidence=script(f"{HEAD}srun -c 8 torchrun {RANKS} --nproc-per-node 4 train.py\n"),
        says="srun starts torchrun in 4 tasks per node, and each starts 4 ranks",
        where=("job.sh:6",),
        measured={"tasks_per_node": 4},
    ),
    Sick(
        evidence=script(f"{HEAD}RUN='torchrun {RANKS} --nproc-per-node gpu'\nsrun -c 8 bash -c \"$RUN train.py\"\n"),
        says="srun starts torchrun in 4 tasks per node, and each starts a rank per GPU",
        where=("job.sh:7",),
        measured={"tasks_per_node": 4},
    ),
    Sick(
        evidence=script(f"{HEAD}srun -c 8 deepspeed train.py --deepspeed ds.json\n"),
        says="srun starts deepspeed in 4 tasks per node, and each starts a rank per GPU",
        where=("job.sh:6",),
        measured={"tasks_per_node": 4},
    ),
)
HEALTHY = (
    script(slurm(JobSettings(command=("train.py",)))),
    script(f"{HEAD}srun --ntasks-per-node=1 -c 32 torchrun {RANKS} --nproc-per-node 4 train.py\n"),
    script(f"{HEAD}srun -n 2 -c 32 torchrun {RANKS} --nproc-per-node 4 train.py\n"),
    script(  # each task is a node of its own
        f"{HEAD}srun -c 8 --gpus-per-task=2 bash -c 'torchrun --nnodes $SLURM_NTASKS --node-rank $SLURM_PROCID "
        "--master-addr gpu01 --nproc-per-node 2 train.py'\n"
    ),
)
