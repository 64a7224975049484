"""Launch scripts as people write them: each mistake is named on its line, and nothing is said of those that work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ddpdoctor import cli

# each line that is to be named ends with `#! CODE`
SICK = {
    "two nodes that meet on localhost": """
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
export SRUN_CPUS_PER_TASK=32
srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 train.py #! DDP702
""",
    "a port for everybody on a shared node": """
#SBATCH --nodes=1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
export OMP_NUM_THREADS=4
torchrun --nproc_per_node 2 --master_port 29501 main.py --config conf/base.yaml #! DDP701
""",
    "the launcher of years ago": """
set -x
GPUS=${1:-4}
python3 -u -m torch.distributed.launch --nproc_per_node=$GPUS --use_env tools/train.py ${@:2} #! DDP703
""",
    "ranks from Slurm in front of torchrun": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH -c 16
head=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
export RANK=$SLURM_PROCID #! DDP704
srun -c 16 torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id $SLURM_JOB_ID --rdzv_endpoint $head:0 train.py
""",
    "the same inside the task": """
#SBATCH --nodes=2
#SBATCH --cpus-per-task=16
srun -c16 bash -c 'WORLD_SIZE=$SLURM_NTASKS torchrun --nnodes 2 --master_addr node7 train.py' #! DDP704
""",
    "one CPU asked for": """
#SBATCH --job-name=resnet
#SBATCH --cpus-per-task=1 #! DDP705
#SBATCH --gres=gpu:4
torchrun --standalone --nproc_per_node=4 train.py
""",
    "no CPU asked for": """
#SBATCH --job-name=resnet
#SBATCH --gres=gpu:4
module load cuda
torchrun --standalone --nproc_per_node=gpu train.py #! DDP705
""",
    "CPUs that srun does not pass on": """
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=24
MASTER=$(scontrol show hostnames "$SLURM_NODELIST" | head -1)
srun torchrun --nnodes=4 --nproc_per_node=4 --rdzv_endpoint=$MASTER:0 train.py #! DDP705
""",
    "each node for itself": """
hosts=${HOSTS:?}
srun -N 4 --cpus-per-task=8 torchrun --standalone --nproc-per-node=8 pretrain.py #! DDP702
""",
    "a variable handed to srun": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
srun --export=ALL,MASTER_ADDR=127.0.0.1 python train_spawned_by_srun.py #! DDP702
""",
}

HEALTHY = {
    "localhost where there is one node": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
if [ "$SLURM_JOB_NUM_NODES" -eq 1 ]; then
    MASTER_ADDR=localhost
else
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
fi
export MASTER_ADDR
srun python train.py
""",
    "a task a rank, without torchrun": """
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))
export WORLD_SIZE=$SLURM_NTASKS
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python -u train.py'
""",
    "nodes of one's own": """
#SBATCH --nodes=2
#SBATCH --exclusive
export MASTER_PORT=29500
head_node=$(hostname)
srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=$head_node:$MASTER_PORT train.py
""",
    "a default that is overwritten": """
#SBATCH --cpus-per-task=16
MASTER_PORT=29500
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
torchrun --nproc_per_node=2 --master_port $MASTER_PORT train.py
""",
    "words for the reader": """
#SBATCH --nodes=2
#SBATCH --cpus-per-task=16
export SRUN_CPUS_PER_TASK=16
cat <<EOF
For one node: MASTER_ADDR=localhost torchrun --standalone train.py
EOF
echo "started with: python -m torch.distributed.launch MASTER_PORT=29500"
srun torchrun --nnodes 2 --rdzv_endpoint "$(scontrol show hostnames | head -n 1)":0 train.py
""",
    "a switch for debugging": """
#SBATCH --nodes=2
#SBATCH --cpus-per-task=8
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
if [ -n "${DEBUG:-}" ]; then torchrun --standalone --nproc_per_node 2 train.py; exit; fi
[[ $USER == ci ]] && export MASTER_ADDR=127.0.0.1
srun torchrun --nnodes=2 --rdzv_endpoint=$(head -n1 hosts):0 train.py
""",
    "numbers of nodes under the names of ranks": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-gpu=8
export WORLD_SIZE=$SLURM_NNODES
export MASTER_ADDR=$(scontrol show hostnames | head -n 1)
srun bash -c 'torchrun --nnodes $WORLD_SIZE --node_rank $SLURM_NODEID --master_addr $MASTER_ADDR train.py'
""",
    "the batch step has the CPUs of all tasks": """
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=32
#SBATCH --gpus=4
torchrun --standalone --nproc_per_node=4 train.py
""",
    "by hand on one machine": """
export MASTER_ADDR=localhost MASTER_PORT=12355
torchrun --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=29511 train.py "$@"
""",
    "accelerate with the addresses of the platform": """
accelerate launch --num_machines "$PET_NNODES" --machine_rank "$PET_NODE_RANK" \\
    --main_process_ip "$MASTER_ADDR" --main_process_port "${MASTER_PORT:-29500}" train.py
""",
}


def said_of(script: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    file = folder / "job.sh"
    file.write_text("#!/bin/bash" + script)
    cli.run(["lint", str(file), "--format", "json"])
    findings = json.loads(capfd.readouterr().out)["findings"]
    return sorted((finding["code"], finding["where"][0]["line"]) for finding in findings)


@pytest.mark.parametrize("name", SICK)
def test_the_line_of_each_mistake_is_named(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = SICK[name].splitlines()
    expected = [(line.rpartition("#! ")[2], number) for number, line in enumerate(lines, start=1) if "#! " in line]
    assert said_of(SICK[name], tmp_path, capfd) == expected


@pytest.mark.parametrize("name", HEALTHY)
def test_a_script_that_works_is_left_alone(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert said_of(HEALTHY[name], tmp_path, capfd) == []
