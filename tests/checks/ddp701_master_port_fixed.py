"""A batch script with a fixed port, and those that share no node or derive it."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.templates.launch_scripts import JobSettings, slurm, torchrun
from tests.checks import Sick
from tests.launch_files import script

JOB = JobSettings(command=("train.py",))


FIXED = slurm(JOB).replace("$((20000 + SLURM_JOB_ID % 10000))", "29500")


def program(text: str, script_text: str) -> Evidence:
    """A script, and the program `train.py` that it starts."""
    return script(script_text, programs={"train.py": text})


SICK = (
    Sick(
        evidence=program('import os\n\nos.environ["MASTER_PORT"] = "29500"\n', slurm(JOB)),
        says="the program sets MASTER_PORT to 29500, and the nodes of job.sh may be shared",
        where=("train.py:3",),
        measured={"port": 29500},
    ),
    Sick(
        evidence=script(FIXED),
        says="port 29500 is fixed in a script whose nodes may be shared",
        where=("job.sh:17",),
        measured={"port": 29500},
    ),
    Sick(
        evidence=script(slurm(JOB).replace('--master-port "$MASTER_PORT"', "--master-port=29400")),
        says="port 29400 is fixed in a script whose nodes may be shared",
        where=("job.sh:43",),
        measured={"port": 29400},
    ),
)
HEALTHY = (
    program('import os\n\nos.environ["MASTER_PORT"] = "29500"\n', torchrun(JOB)),
    script(slurm(JOB)),
    script(FIXED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --exclusive")),
    script(torchrun(JOB)),
)
