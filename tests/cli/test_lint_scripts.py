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
srun -c 16 torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint $head:0 train.py
""",
    "the same inside the task": """
#SBATCH --nodes=2
#SBATCH --cpus-per-task=16
srun -c16 bash -c 'WORLD_SIZE=$SLURM_NTASKS torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr node7 train.py' #! DDP704
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
srun torchrun --nnodes=4 --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$MASTER:0 train.py #! DDP705
""",
    "each node for itself": """
hosts=${HOSTS:?}
srun -N 4 --cpus-per-task=8 torchrun --standalone --nproc-per-node=8 pretrain.py #! DDP702
""",
    "a task a GPU and torchrun in each": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-gpu=8
FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
LAUNCH="torchrun --nnodes 2 --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint $FIRST:0"
srun bash -c "$LAUNCH train.py" #! DDP706
""",
    "the number of the node, too early": """
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
export MASTER_ADDR=$(hostname)
srun torchrun --nnodes=$SLURM_NNODES --node_rank=$SLURM_NODEID --nproc_per_node=8 --master_addr=$MASTER_ADDR train.py #! DDP763
""",
    "each node its own master, and no srun": """
#SBATCH --nodes=2
#SBATCH --exclusive
srun bash -c 'export MASTER_ADDR=`hostname -s`; python train.py' #! DDP764
torchrun --nnodes 2 --nproc_per_node 8 --node_rank 0 --master_addr a1 train.py #! DDP707
""",
    "more ranks than GPUs": """
#SBATCH --gpus=2
#SBATCH --cpus-per-task=16
RANKS=4
accelerate launch --multi_gpu --num_processes $RANKS train.py #! DDP708
""",
    "more threads than CPUs, and a fixed list of GPUs": """
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=16
export OMP_NUM_THREADS=16 #! DDP762
export CUDA_VISIBLE_DEVICES=4,5 #! DDP765
torchrun --standalone --nproc_per_node=2 train.py
""",
    "names that nothing reads": """
export NCCL_SOCKET_IFNAMES=eth0 #! DDP761
export TORCH_NCCL_BLOCKING_WIAT=1 #! DDP761
export CUDA_LAUNCH_BLOCKING=1 #! DDP760
torchrun --standalone --nproc_per_node=2 train.py
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
srun torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$head_node:$MASTER_PORT train.py
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
srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint "$(scontrol show hostnames | head -n 1)":0 train.py
""",
    "a switch for debugging": """
#SBATCH --nodes=2
#SBATCH --cpus-per-task=8
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
if [ -n "${DEBUG:-}" ]; then torchrun --standalone --nproc_per_node 2 train.py; exit; fi
[[ $USER == ci ]] && export MASTER_ADDR=127.0.0.1
srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$(head -n1 hosts):0 train.py
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
    "commands in variables, calculated numbers": """
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-gpu=12
#SBATCH --gres=gpu:a100:4
GPUS_PER_NODE=4
FIRST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
RANK=$(( $SLURM_PROCID ))
LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $GPUS_PER_NODE --nnodes $SLURM_NNODES \\
    --rdzv_backend c10d --rdzv_endpoint $FIRST:0 --node_rank $RANK --max_restarts 0 --tee 3"
CMD="pretrain.py --tensor-parallel 2 $*"
clear; echo $CMD
srun --jobid $SLURM_JOB_ID bash -c "$LAUNCHER --role \\$(hostname -s): $CMD" 2>&1 | tee -a log.txt
""",
    "numbers of the tasks' own shells": """
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH -c 16
#SBATCH --gpus-per-node=4
export SRUN_CPUS_PER_TASK=16 OMP_NUM_THREADS=4
master_addr=$(srun --nodes=1 --ntasks=1 hostname)
srun sh -xeuc '
    torchrun --master-addr '$master_addr' --nnodes $SLURM_NNODES --node-rank $SLURM_NODEID --nproc-per-node 4 main.py'
""",
    "a here-document for the tasks": """
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
srun bash <<'EOF'
torchrun --nnodes 2 --node-rank $SLURM_NODEID --nproc-per-node 8 --master-addr node0 train.py
EOF
""",
    "a loop over hosts": """
#SBATCH --nodes=2
#SBATCH --exclusive
nodes=($(scontrol show hostnames))
for i in 0 1; do
    srun -N 1 -n 1 -w ${nodes[$i]} torchrun --nnodes 2 --node_rank $i --nproc_per_node 8 --master_addr ${nodes[0]} train.py &
done
wait
""",
    "several experiments, each on its GPU": """
export OMP_NUM_THREADS=8 NCCL_DEBUG=INFO
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 --master_port $((29500 + RANDOM % 99)) a.py &
CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node=2 --master_port $((29600 + RANDOM % 99)) b.py &
wait
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
    assert said_of(SICK[name], tmp_path, capfd) == sorted(expected)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_script_that_works_is_left_alone(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert said_of(HEALTHY[name], tmp_path, capfd) == []
