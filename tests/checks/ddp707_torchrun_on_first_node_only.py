"""torchrun in a batch script for several nodes, with srun in front and without it."""

from ddpdoctor.model import Severity
from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import script

HEAD = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n#SBATCH -c 32\n"
RANKS = "--nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint $(scontrol show hostnames | head -n 1):0"
PBS = "#!/bin/bash\n#PBS -l select=2:ncpus=32:ngpus=4\n#PBS -l place=scatter\n"
LSF = "#!/bin/bash\n#BSUB -nnodes 2\n"

SICK = (
    Sick(
        evidence=script(f"{PBS}torchrun --nnodes 2 {RANKS} train.py\n"),
        says="torchrun waits for 2 nodes, and only the first of 2 starts it: there is no pbsdsh, mpirun or ssh in front",
        where=("job.sh:4",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(f"{HEAD}torchrun --nnodes $SLURM_NNODES {RANKS} train.py\n"),
        says="torchrun waits for 2 nodes, and only the first of 2 starts it: there is no srun in front",
        where=("job.sh:6",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(f"{HEAD}torchrun --standalone --nproc-per-node 4 train.py\n"),
        says="the job has 2 nodes, and torchrun runs on the first alone: the others are idle",
        where=("job.sh:6",),
        measured={"nodes": 2},
        severity=Severity.WARN,
    ),
)
HEALTHY = (
    script(f"{PBS.replace('scatter', 'pack')}torchrun --standalone --nproc-per-node 8 train.py\n"),
    script("#!/bin/bash\n#PBS -l select=2:ncpus=32:ngpus=4\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script(
        f"{PBS}HOSTS=($(sort -u $PBS_NODEFILE))\ntorchrun --nnodes=2 --node-rank=0 --master-addr $HOST train.py &\n"
        'ssh ${HOSTS[1]} "cd /w && torchrun --nnodes=2 --node-rank=1 --master-addr $HOST train.py"\nwait\n'
    ),
    script(f"{PBS}xargs -a $PBS_NODEFILE -n 1 ./start_on torchrun --nnodes 2 {RANKS} train.py\n"),
    script(f'{LSF}lsgrun -m "$LSB_HOSTS" torchrun --nnodes 2 {RANKS} train.py\n'),
    script(f"{PBS}mpirun -ppn 1 torchrun --nnodes 2 {RANKS} train.py\n"),
    script(f"{PBS}for i in 0 1; do pbsdsh -n $i -- bash -c 'torchrun --nnodes 2 {RANKS} train.py' & done\nwait\n"),
    script(
        f"{PBS.replace('ngpus=4', 'ngpus=1').replace('scatter', 'free')}torchrun --standalone --nproc-per-node 2 train.py\n"
    ),
    script(slurm(JobSettings(command=("train.py",)))),
    script(f"{HEAD}srun -c 32 torchrun --nnodes 2 {RANKS} train.py\n"),
    script(f"{HEAD}for n in $(scontrol show hostnames); do ssh $n torchrun --nnodes 2 {RANKS} train.py & done\nwait\n"),
    script(f"{HEAD}mpirun -npernode 1 torchrun --nnodes 2 {RANKS} train.py\n"),
    script(f"{HEAD}torchrun $DISTRIBUTED train.py\n"),
    script(f"{HEAD}deepspeed --include localhost:0,1 eval.py\n"),
    script(f"{HEAD}deepspeed train.py\n"),
    script(
        "#!/bin/bash\n# started by hand on each node\ntorchrun --nnodes 2 --node-rank $1 --master-addr a train.py\n"
    ),
)
