"""Tasks with one CPU for eight ranks, and tasks that have theirs."""

from dataclasses import replace

from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import script

JOB = JobSettings(command=("train.py",))


SICK = (
    Sick(
        evidence=script("#SBATCH --nodes=1\nsrun torchrun --standalone --nproc-per-node 8 train.py\n"),
        says="no --cpus-per-task: the task that starts torchrun gets one CPU for all its ranks",
        where=("job.sh:2",),
    ),
    Sick(
        evidence=script(slurm(replace(JOB, cpus=1))),
        says="--cpus-per-task=1: the task that starts torchrun has one CPU for all its ranks",
        where=("job.sh:6",),
    ),
    Sick(
        evidence=script("#SBATCH --cpus-per-task=32\nsrun torchrun --standalone --nproc-per-node 8 train.py\n"),
        says="--cpus-per-task=32 is not inherited by srun since Slurm 22.05: its task gets one CPU",
        where=("job.sh:2",),
    ),
)
HEALTHY = (
    script(slurm(JOB)),
    script("#SBATCH --cpus-per-task=32\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script("#SBATCH --cpus-per-task=32\nsrun -c 32 torchrun --standalone --nproc-per-node 8 train.py\n"),
)
