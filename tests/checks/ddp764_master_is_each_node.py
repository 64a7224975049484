"""The host name of each task, and that of the batch script's node."""

from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import script

HEAD = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-gpu=8\n"
RANKS = "--nnodes 2 --nproc-per-node 4 --node-rank $SLURM_NODEID"

SICK = (
    Sick(
        evidence=script(f"{HEAD}srun bash -c '\nexport MASTER_ADDR=$(hostname)\ntorchrun {RANKS} train.py'\n"),
        says="MASTER_ADDR=$(hostname) is filled in by each task: every one of the 2 nodes takes itself",
        where=("job.sh:6",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(
            f"{HEAD}srun bash -c 'torchrun {RANKS} --rdzv-backend c10d --rdzv-endpoint $HOSTNAME:0 train.py'\n"
        ),
        says="--rdzv-endpoint=$HOSTNAME:0 is filled in by each task: every one of the 2 nodes takes itself",
        where=("job.sh:5",),
        measured={"nodes": 2},
    ),
)
HEALTHY = (
    script(slurm(JobSettings(command=("train.py",)))),
    script(
        f"{HEAD}export MASTER_ADDR=$(hostname)\nsrun bash -c 'torchrun {RANKS} --master-addr $MASTER_ADDR train.py'\n"
    ),
    script(f'{HEAD}srun bash -c "torchrun --rdzv-backend c10d --rdzv-endpoint $(hostname):0 --nnodes 2 train.py"\n'),
    script(
        "#SBATCH -N 1\n#SBATCH --cpus-per-gpu=8\nsrun bash -c 'MASTER_ADDR=$(hostname) torchrun --nproc-per-node 4 train.py'\n"
    ),
)
