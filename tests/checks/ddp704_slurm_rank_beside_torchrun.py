"""RANK from Slurm beside torchrun, and without it."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import script

JOB = JobSettings(command=("train.py",))


def program(text: str, script_text: str) -> Evidence:
    """A script, and the program `train.py` that it starts."""
    return script(script_text, programs={"train.py": text})


TORCHRUN = 1 + slurm(JOB).splitlines().index(
    '    exec ddpdoctor watch --case "$CASE" --stall-after 1800 --kill-on-hang -- \\'
)
TAKES_PROCID = 'import os\n\nos.environ["RANK"] = os.environ["SLURM_PROCID"]\n'

SICK = (
    Sick(
        evidence=program(TAKES_PROCID, slurm(JOB)),
        says="the program sets RANK to os.environ['SLURM_PROCID'], which counts Slurm tasks, but torchrun in line "
        f"{TORCHRUN} of job.sh counts ranks",
        where=("train.py:3",),
    ),
    Sick(
        evidence=script(slurm(JOB).replace("export OMP", "export RANK=$SLURM_PROCID\nexport OMP")),
        says=f"RANK=$SLURM_PROCID counts Slurm tasks, but torchrun in line {TORCHRUN + 1} counts ranks",
        where=("job.sh:24",),
    ),
)
HEALTHY = (
    program(TAKES_PROCID, "#SBATCH --ntasks-per-node=8\nsrun python train.py\n"),
    program(TAKES_PROCID.replace('["RANK"] =', '.setdefault("RANK",').replace("]\n", "])\n"), slurm(JOB)),
    script(slurm(JOB)),
    script("#SBATCH --ntasks-per-node=8\nsrun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS python train.py'\n"),
)
