"""A batch script with a fixed port, and those that share no node or derive it."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.scripts import ScriptFile, ScriptFiles
from ddpdoctor.render.launch_scripts import Job, slurm, torchrun
from tests.checks import Sick

JOB = Job(command=("train.py",))


def script(text: str) -> Evidence:
    return Evidence(job=(ScriptFiles(files=(ScriptFile(path="job.sh", text=text),)),), launched=False)


FIXED = slurm(JOB).replace("$((20000 + SLURM_JOB_ID % 10000))", "29500")

SICK = (
    Sick(evidence=script(FIXED), says="port 29500 is fixed in a script whose nodes may be shared"),
    Sick(
        evidence=script(slurm(JOB).replace('--master-port "$MASTER_PORT"', "--master-port=29400")),
        says="port 29400 is fixed in a script whose nodes may be shared",
    ),
)
HEALTHY = (
    script(slurm(JOB)),
    script(FIXED.replace("#SBATCH --nodes=2", "#SBATCH --nodes=2\n#SBATCH --exclusive")),
    script(torchrun(JOB)),
)
