"""Several nodes that look for each other in themselves, and one node that may."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import manifest, script

JOB = JobSettings(command=("train.py",))


def program(text: str, script_text: str) -> Evidence:
    """A script, and the program `train.py` that it starts."""
    return script(script_text, programs={"train.py": text})


MEANS_ITSELF = "import os\n\n\ndef setup():\n    os.environ.update(MASTER_ADDR='localhost')\n"
SKYPILOT = "num_nodes: 2\nrun: torchrun --nnodes 2 --node-rank $SKYPILOT_NODE_RANK --master-addr 127.0.0.1 train.py\n"

ROLES = """kind: PyTorchJob
spec:
  runPolicy: {backoffLimit: 0}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          hostIPC: true
          containers:
          - name: pytorch
            command: [torchrun, --nnodes=2, --node-rank=0, --master-addr=localhost, train.py]
    Worker:
      replicas: 1
      template:
        spec:
          hostIPC: true
          containers:
          - name: pytorch
            command: [torchrun, --nnodes=2, --node-rank=1, --master-addr=job-master-0, train.py]
"""
WORKERS = (
    ROLES.replace("--nnodes=2", "--nnodes=4, --rdzv-backend=c10d")
    .replace("--node-rank=0, --master-addr=localhost", "--rdzv-endpoint=job-master-0:29400")
    .replace("Worker:\n      replicas: 1", "Worker:\n      replicas: 3")
    .replace("--node-rank=1, --master-addr=job-master-0", "--rdzv-endpoint=localhost:29400")
)

SICK = (
    Sick(
        evidence=manifest(WORKERS),
        says="--rdzv-endpoint=localhost:29400 in each of 3 pods, so every pod tries to rendezvous with itself",
        where=("job.yaml:20",),
        measured={"nodes": 3},
    ),
    Sick(
        evidence=manifest(SKYPILOT),
        says="--master-addr=127.0.0.1 in each of 2 nodes, so every node tries to rendezvous with itself",
        where=("job.yaml:2",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(
            "#!/bin/bash\n#BSUB -nnodes 2\nexport MASTER_ADDR=localhost\njsrun -n 8 -r 4 python train.py\n"
        ),
        says="MASTER_ADDR=localhost in a script for 2 nodes, so every node tries to rendezvous with itself",
        where=("job.sh:3",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=program(MEANS_ITSELF, slurm(JOB)),
        says="the program sets MASTER_ADDR to localhost, and job.sh starts it on 2 nodes, so every node tries to "
        "rendezvous with itself",
        where=("train.py:5",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script("MASTER_ADDR=localhost\ntorchrun --nnodes 2 \\\n  --nproc-per-node 8 train.py\n"),
        says="MASTER_ADDR=localhost in a script for 2 nodes, so every node tries to rendezvous with itself",
        where=("job.sh:1",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(
            "#!/bin/bash\n#SBATCH -N 4\n#SBATCH -c 32\nexport SRUN_CPUS_PER_TASK=32\n"
            "srun torchrun --standalone --nproc-per-node 8 train.py\n"
        ),
        says="--standalone in a script for 4 nodes, so every node tries to rendezvous with itself",
        where=("job.sh:5",),
        measured={"nodes": 4},
    ),
    Sick(
        evidence=script("mpirun -np 8 -npernode 4 -x MASTER_ADDR=localhost -x MASTER_PORT python train.py\n"),
        says="MASTER_ADDR=localhost in a script for 2 nodes, so every node tries to rendezvous with itself",
        where=("job.sh:1",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH -c 8\n"
            "srun -c 8 deepspeed --num_gpus=4 train.py --deepspeed ds.json\n"
        ),
        says="srun starts `deepspeed` without --no_ssh and --node_rank in a script for 2 nodes, so every node tries to "
        "rendezvous with itself",
        where=("job.sh:5",),
        measured={"nodes": 2},
    ),
)
HEALTHY = (
    manifest(ROLES),
    manifest(SKYPILOT.replace("127.0.0.1", "$FIRST")),
    manifest(SKYPILOT.replace("num_nodes: 2", "num_nodes: 1").replace("--nnodes 2", "--nnodes 1")),
    script("#!/bin/bash\n#PBS -l select=8:ngpus=1\ntorchrun --master-addr localhost --nproc-per-node 8 train.py\n"),
    script("mpirun -np 4 --map-by ppr:4:node -x MASTER_ADDR=localhost python train.py\n"),
    script("#!/bin/bash\n#SBATCH -N 2\ndeepspeed --hostfile hosts --num_nodes 2 --num_gpus 8 train.py\n"),
    script(
        "#!/bin/bash\n#SBATCH -N 2\nsrun -c 8 bash -c 'deepspeed --no_ssh --node_rank $SLURM_NODEID --num_nodes 2 "
        "--master_addr $FIRST train.py'\n"
    ),
    program(
        MEANS_ITSELF,
        "torchrun --standalone --nproc-per-node 8 train.py\n",
    ),
    program("import os\n\nif debug:\n    os.environ['MASTER_ADDR'] = 'localhost'\n", slurm(JOB)),
    script(slurm(JOB)),
    script("MASTER_ADDR=localhost\ntorchrun --standalone --nproc-per-node 8 train.py\n"),
    script("# MASTER_ADDR=localhost will not do\ntorchrun --nnodes 2 --master-addr gpu01 train.py\n"),
)
