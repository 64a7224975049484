"""RANK from Slurm beside torchrun, and without it."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.scripts import ScriptFile, ScriptFiles
from ddpdoctor.render.launch_scripts import Job, slurm
from tests.checks import Sick

JOB = Job(command=("train.py",))


def script(text: str) -> Evidence:
    return Evidence(job=(ScriptFiles(files=(ScriptFile(path="job.sh", text=text),)),), launched=False)


SICK = (
    Sick(
        evidence=script(slurm(JOB).replace("export OMP", "export RANK=$SLURM_PROCID\nexport OMP")),
        says="RANK=$SLURM_PROCID counts the tasks of Slurm; torchrun in line 29 counts ranks",
    ),
)
HEALTHY = (
    script(slurm(JOB)),
    script("#SBATCH --ntasks-per-node=8\nsrun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"),
)
