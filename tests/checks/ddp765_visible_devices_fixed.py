"""Fixed GPUs in a batch script, and those that Slurm gives."""

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.launch_files import script

HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:2\n#SBATCH --cpus-per-task=16\n"
RUN = "torchrun --standalone --nproc-per-node 2 train.py\n"

SICK = (
    Sick(
        evidence=script(f"{HEAD}export CUDA_VISIBLE_DEVICES=2,3\n{RUN}"),
        says="CUDA_VISIBLE_DEVICES=2,3 replaces the 2 GPUs that Slurm gives the job, and names others",
        where=("job.sh:4",),
        measured={"gpus": 2},
    ),
    Sick(
        evidence=script(f"{HEAD}export CUDA_VISIBLE_DEVICES=0,1\n{RUN}"),
        says="CUDA_VISIBLE_DEVICES=0,1 replaces the 2 GPUs that Slurm gives the job, which have other numbers where Slurm does "
        "not confine devices",
        where=("job.sh:4",),
        measured={"gpus": 2},
        severity=Severity.INFO,
    ),
)
HEALTHY = (
    script(f"{HEAD}echo $CUDA_VISIBLE_DEVICES\n{RUN}"),
    script(f"{HEAD}export CUDA_VISIBLE_DEVICES=$SLURM_JOB_GPUS\n{RUN}"),
    script(f"#SBATCH --exclusive\n{HEAD}export CUDA_VISIBLE_DEVICES=2,3\n{RUN}"),
    script(f"export CUDA_VISIBLE_DEVICES=2,3\n{RUN}"),
)
