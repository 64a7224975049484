"""More OpenMP threads than CPUs, and as many."""

from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import manifest, script

HEAD = "#!/bin/bash\n#SBATCH --cpus-per-task=32\n#SBATCH --ntasks-per-node=1\n"
POD = """kind: Job
spec:
  template:
    spec:
      hostIPC: true
      containers:
      - name: ranks
        command: [torchrun, --standalone, --nproc-per-node, "4", train.py]
        env:
        - {name: OMP_NUM_THREADS, value: "8"}
        resources: {limits: {cpu: 16}}
"""

SICK = (
    Sick(
        evidence=script(f"{HEAD}export OMP_NUM_THREADS=32\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
        says="8 ranks with OMP_NUM_THREADS=32 have 256 threads, and 32 CPUs to run them",
        where=("job.sh:4",),
        measured={"threads": 256, "cpus": 32},
    ),
    Sick(
        evidence=manifest(POD),
        says="4 ranks with OMP_NUM_THREADS=8 have 32 threads, and 16 CPUs to run them",
        where=("job.yaml:10",),
        measured={"threads": 32, "cpus": 16.0},
    ),
)
HEALTHY = (
    script(slurm(JobSettings(command=("train.py",)))),
    script(f"{HEAD}export OMP_NUM_THREADS=4\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script(f"{HEAD}OMP_NUM_THREADS=32 python prepare.py\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script(
        f"#SBATCH --exclusive\n{HEAD}export OMP_NUM_THREADS=32\ntorchrun --standalone --nproc-per-node 8 train.py\n"
    ),
    manifest(POD.replace("cpu: 16", "cpu: 32")),
)
