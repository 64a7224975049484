"""Several nodes that look for each other in themselves, and one node that may."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.scripts import ScriptFile, ScriptFiles
from ddpdoctor.render.launch_scripts import Job, slurm
from tests.checks import Sick

JOB = Job(command=("train.py",))


def script(text: str) -> Evidence:
    return Evidence(job=(ScriptFiles(files=(ScriptFile(path="job.sh", text=text),)),), launched=False)


SICK = (
    Sick(
        evidence=script("MASTER_ADDR=localhost\ntorchrun --nnodes 2 \\\n  --nproc-per-node 8 train.py\n"),
        says="MASTER_ADDR=localhost in a script for 2 nodes: each of them looks for the others in itself",
    ),
    Sick(
        evidence=script(
            "#!/bin/bash\n#SBATCH -N 4\n#SBATCH -c 32\nexport SRUN_CPUS_PER_TASK=32\n"
            "srun torchrun --standalone --nproc-per-node 8 train.py\n"
        ),
        says="--standalone in a script for 4 nodes: each of them looks for the others in itself",
    ),
)
HEALTHY = (
    script(slurm(JOB)),
    script("MASTER_ADDR=localhost\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script("# MASTER_ADDR=localhost will not do\ntorchrun --nnodes 2 --master-addr gpu01 train.py\n"),
)
