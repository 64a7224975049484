"""One number for every node, and a number for each."""

from ddpdoctor.templates.launch_scripts import JobSettings, slurm
from tests.checks import Sick
from tests.launch_files import manifest, script

HEAD = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-gpu=8\n"
RANKS = '--nnodes 2 --nproc-per-node 4 --master-addr "$FIRST" --master-port "$PORT"'
PODS = """kind: PyTorchJob
spec:
  runPolicy: {backoffLimit: 0}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          hostIPC: true
          containers:
          - name: pytorch
            command:
            - bash
            - -c
            - |
              set -e
              torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 train.py
"""

SERVICES = """services:
  node0:
    shm_size: 8g
    command: torchrun --nnodes 2 --nproc-per-node 4 --master-addr node0 --node-rank 0 train.py
  node1:
    shm_size: 8g
    command: torchrun --nnodes 2 --nproc-per-node 4 --master-addr node0 --node-rank 0 train.py
"""

SICK = (
    Sick(
        evidence=script(f"{HEAD}srun torchrun {RANKS} --node-rank 0 train.py\n"),
        says="--node-rank is 0 on each of the 2 nodes that srun starts torchrun on",
        where=("job.sh:5",),
        measured={"nodes": 2},
    ),
    Sick(  # the batch shell replaces the variable before srun starts the tasks
        evidence=script(f"{HEAD}srun torchrun {RANKS} \\\n    --node_rank=$SLURM_NODEID train.py\n"),
        says="--node-rank is 0 on each of the 2 nodes that srun starts torchrun on",
        where=("job.sh:5",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(f"{HEAD}srun torchrun {RANKS} train.py\n"),
        says="without --node-rank torchrun takes 0 on each of the 2 nodes that srun starts torchrun on",
        where=("job.sh:5",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=manifest(PODS),
        says="--node-rank is 0 in each of the 2 pods of pytorch",
        where=("job.yaml:17",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=script(
            'pdsh -w gpu[01-04] "cd /x && torchrun --nnodes 4 --node_rank 0 --master_addr gpu01 --nproc_per_node 8 train.py"\n'
        ),
        says="--node-rank is 0 on each host that pdsh starts torchrun on",
        where=("job.sh:1",),
        measured={"nodes": 4},
    ),
    Sick(
        evidence=script('clush -wgpu1,gpu2 "torchrun --nnodes 2 --node_rank 0 --master_addr gpu1 train.py"\n'),
        says="--node-rank is 0 on each host that clush starts torchrun on",
        where=("job.sh:1",),
        measured={"nodes": 2},
    ),
    Sick(
        evidence=manifest(SERVICES),
        says="--node-rank is 0 in node1, as in node0",
        where=("job.yaml:7",),
        measured={"nodes": 2},
    ),
)
HEALTHY = (
    manifest(
        'num_nodes: 2\nrun: |\n  if [ "$SKYPILOT_NODE_RANK" == "0" ]; then\n'
        "    torchrun --nnodes=2 --node-rank=0 --master-addr $FIRST train.py\n  else\n"
        "    torchrun --nnodes=2 --node-rank=1 --master-addr $FIRST train.py\n  fi\n"
    ),
    script('pdsh -w gpu01 "torchrun --nnodes 4 --node_rank 0 --master_addr gpu01 train.py"\n'),
    script('pdsh -w gpu[01-04] "torchrun --nnodes 4 --rdzv-backend c10d --rdzv-endpoint gpu01 train.py"\n'),
    script(
        'pdsh -w $NODE0 "torchrun --nnodes=2 --node-rank=0 --master-addr a train.py" &\n'
        'pdsh -w $NODE1 "torchrun --nnodes=2 --node-rank=1 --master-addr a train.py"\n'
    ),
    script('pdsh -wnode1 "torchrun --nnodes=2 --node-rank=0 --master-addr node1 train.py"\n'),
    script(
        'pssh -H "$1" "torchrun --nnodes=2 --node-rank=0 --master-addr a train.py" &\n'
        'pssh -H "$2" "torchrun --nnodes=2 --node-rank=1 --master-addr a train.py"\n'
    ),
    script('pssh -H "$1" "torchrun --nnodes=2 --node-rank=0 --master-addr a train.py"\n'),
    manifest(
        SERVICES.replace("  node0:", "  node0:\n    profiles: [small]").replace(
            "  node1:", "  node1:\n    profiles: [large]"
        )
    ),
    manifest(SERVICES.replace("--node-rank 0", "--node-rank 1", 1)),
    script(slurm(JobSettings(command=("train.py",)))),
    script(f"{HEAD}srun bash -c 'torchrun {RANKS} --node-rank $SLURM_NODEID train.py'\n"),
    script(
        f'{HEAD}srun bash -c "torchrun {RANKS} --node-rank \\$SLURM_NODEID train.py"\n'.replace(
            '"$FIRST" --master-port "$PORT"', "$FIRST --master-port $PORT"
        )
    ),
    script(f"{HEAD}srun torchrun {RANKS} --rdzv-backend c10d --node-rank $SLURM_NODEID train.py\n"),
    script(f"{HEAD}export PET_NODE_RANK=$SLURM_NODEID\nsrun torchrun {RANKS} train.py\n"),
    script(
        f"{HEAD}srun -N 1 -w a torchrun {RANKS} --node-rank 0 train.py &\n"
        f"srun -N 1 -w b torchrun {RANKS} --node-rank 1 train.py\n"
    ),
    manifest(PODS.replace("--node-rank 0", "--node-rank $RANK")),
)
