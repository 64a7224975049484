"""More ranks on a node than GPUs, and as many."""

from tests.checks import Sick
from tests.launch_files import manifest, script

HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:a100:4\n#SBATCH --cpus-per-task=32\n"
POD = """kind: PyTorchJob
spec:
  nprocPerNode: "8"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
          containers:
          - name: pytorch
            command: [torchrun, train.py]
            resources: {limits: {nvidia.com/gpu: 4}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
"""

VOLCANO = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  tasks:
  - replicas: 2
    name: worker
    template:
      spec:
        hostIPC: true
        containers:
        - name: worker
          command: [torchrun, --nnodes=2, --nproc-per-node=8, --rdzv-backend=c10d, train.py]
          resources: {limits: {nvidia.com/gpu: 4}}
"""
TRAIN = {"train.py": "import torch.distributed as dist\n"}
MPI_JOB = """kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - {name: launcher, command: [mpirun, -np, "32", python, train.py]}
    Worker:
      replicas: 2
      template:
        spec:
          hostIPC: true
          containers:
          - {name: worker, resources: {limits: {nvidia.com/gpu: 8}}}
"""
SKYPILOT = """num_nodes: 2
resources: {accelerators: "A100:4"}
run: |
  torchrun --nnodes 2 --nproc-per-node 8 --node-rank $SKYPILOT_NODE_RANK --master-addr $FIRST train.py
"""

SICK = (
    Sick(
        evidence=script(f"{HEAD}torchrun --standalone --nproc_per_node=8 train.py\n"),
        says="8 ranks per node, and the job asks for 4 GPUs",
        where=("job.sh:4", "job.sh:2"),
        measured={"ranks_per_node": 8, "gpus": 4},
    ),
    Sick(
        evidence=script("NPROC=2\nCUDA_VISIBLE_DEVICES=0 torchrun --standalone --nproc-per-node $NPROC train.py\n"),
        says="2 ranks per node, and CUDA_VISIBLE_DEVICES shows 1 GPU",
        where=("job.sh:2",),
        measured={"ranks_per_node": 2, "gpus": 1},
    ),
    Sick(
        evidence=script(
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -G 8\n#SBATCH --cpus-per-gpu=8\nsrun torchrun --nnodes 2 "
            "--rdzv-backend c10d --rdzv-endpoint $HEAD:0 --nproc-per-node 8 train.py\n"
        ),
        says="8 ranks per node, and the job asks for 4 GPUs",
        where=("job.sh:5", "job.sh:3"),
        measured={"ranks_per_node": 8, "gpus": 4},
    ),
    Sick(
        evidence=script(
            "mpirun -np 8 -H a:4,b:4 -x CUDA_VISIBLE_DEVICES=0 -x MASTER_ADDR python train.py\n", programs=TRAIN
        ),
        says="4 ranks per node, and CUDA_VISIBLE_DEVICES shows 1 GPU",
        where=("job.sh:1",),
        measured={"ranks_per_node": 4, "gpus": 1},
    ),
    Sick(
        evidence=script("docker run --gpus '\"device=0,1\"' --ipc=host image torchrun --nproc-per-node 4 train.py\n"),
        says="4 ranks per node, and docker run gives the container 2 GPUs",
        where=("job.sh:1",),
        measured={"ranks_per_node": 4, "gpus": 2},
    ),
    Sick(
        evidence=manifest(MPI_JOB),
        says="16 ranks per node, and each worker has 8 GPUs",
        where=("job.yaml:8",),
        measured={"ranks_per_node": 16, "gpus": 8},
    ),
    Sick(
        evidence=manifest(SKYPILOT),
        says="8 ranks per node, and each node has 4 GPUs",
        where=("job.yaml:4",),
        measured={"ranks_per_node": 8, "gpus": 4},
    ),
    Sick(
        evidence=manifest(VOLCANO),
        says="8 ranks per node, and the container has 4 GPUs",
        where=("job.yaml:12",),
        measured={"ranks_per_node": 8, "gpus": 4},
    ),
    Sick(
        evidence=manifest(POD),
        says="8 ranks per node, and the container has 4 GPUs",
        where=("job.yaml:12",),
        measured={"ranks_per_node": 8, "gpus": 4},
    ),
)
HEALTHY = (
    manifest(MPI_JOB.replace("spec:\n", "spec:\n  runLauncherAsWorker: true\n", 1)),
    manifest(MPI_JOB.replace("python, train.py", "python, make_index.py")),
    manifest(MPI_JOB.replace("python, train.py", "--map-by, core, ./preprocess")),
    manifest(
        MPI_JOB.replace(
            '[mpirun, -np, "32", python, train.py]',
            '[bash, -c, "mpirun -np 32 python make_train_index.py && mpirun -np 16 python train.py"]',
        )
    ),
    manifest(
        MPI_JOB.replace(
            '[mpirun, -np, "32", python, train.py]', '[bash, -c, "[ -n $A ] && mpirun -np 32 python train.py"]'
        )
    ),
    *(manifest(SKYPILOT.replace("A100:4", name)) for name in ("Trainium:4", "tpu-v5litepod-4", "Inferentia:4")),
    manifest(SKYPILOT.replace('"A100:4"', "{Trainium: 4}")),
    manifest(SKYPILOT.replace("  torchrun", "  [ -n $LARGE ] && torchrun")),
    script("#!/bin/bash\n#PBS -l select=2:ngpus=4\n#PBS -l place=pack\ntorchrun --nproc-per-node=8 train.py\n"),
    script("docker run --gpus 4 --ipc=host image torchrun --nproc-per-node 4 train.py\n"),
    manifest(MPI_JOB.replace('"32"', '"16"')),
    manifest(SKYPILOT.replace("A100:4", "A100:8")),
    script("mpirun -np 8 -H a:4,b:4 -x CUDA_VISIBLE_DEVICES=0,1,2,3 -x MASTER_ADDR python train.py\n", programs=TRAIN),
    script("mpirun -np 2 -npernode 1 -x CUDA_VISIBLE_DEVICES=0 -x MASTER_ADDR python train.py\n", programs=TRAIN),
    script("CUDA_VISIBLE_DEVICES=0,1,2,3 mpirun -np 8 -H node1:8 python prep_cpu.py\n"),
    script(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 mpirun -np 8 -H node1:8 python prep_cpu.py\n",
        programs={"prep_cpu.py": "from mpi4py import MPI\n"},
    ),
    script(f"{HEAD}torchrun --standalone --nproc-per-node=4 train.py\n"),
    script(f"{HEAD}torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE train.py\n"),
    script(f"{HEAD}torchrun --standalone --nproc-per-node=8 train.py --backend gloo\n"),
    script("CUDA_VISIBLE_DEVICES=0 python prepare.py\ntorchrun --standalone --nproc-per-node=8 train.py\n"),
    script('[ -n "$ONE" ] && export CUDA_VISIBLE_DEVICES=0\ntorchrun --standalone --nproc-per-node=8 train.py\n'),
    manifest(POD.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 8")),
)
