"""Launch scripts that are right: what `ddpdoctor init` writes for Slurm, for torchrun by hand, and for Kubernetes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

PORT = 29500  # torchrun's own default, and below Linux's ephemeral ports
PREFLIGHT = "net"  # names, routes, ports, rendezvous, every pair of nodes, gloo: which layer is broken, and who
PATIENCE_SECONDS = (
    1800  # gloo's own timeout, three times NCCL's: no pause that PyTorch lets a healthy job make is longer
)


# where it cannot tell, NCCL and gloo choose, and the preflight says what is wrong with the name
CHOOSE_INTERFACE = """
# NCCL and gloo take the interface that leads to MASTER_ADDR; on that node itself, the one that bears its address.
choose_interface() {
    local address interface
    address=$(getent ahosts "$MASTER_ADDR" | awk 'NR == 1 { print $1 }') || return 0
    interface=$(ip -oneline route get "$address" | sed -nE 's/.* dev ([^ ]+) .*/\\1/p') || return 0
    if [ "$interface" = lo ]; then
        interface=$(ip -oneline address show to "$address" | awk 'NR == 1 { print $2 }')
    fi
    if [ -n "$interface" ] && [ "$interface" != lo ]; then
        export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-=$interface}"
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$interface}"
    fi
}
"""

# the part of a batch script that chooses MASTER_ADDR and MASTER_PORT
SLURM_RENDEZVOUS = """\
# The ranks meet on the first node; where its name does not resolve, at the address that Slurm uses.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
if ! getent hosts "$MASTER_ADDR" >/dev/null; then
    MASTER_ADDR=$(scontrol show node --oneliner "$MASTER_ADDR" | sed -E 's/.* NodeAddr=([^ ]+) .*/\\1/')
fi
# A port of this job's own, below the ephemeral ones, that nothing listens on: this script runs on the first node.
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
while (exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2>/dev/null; do MASTER_PORT=$((MASTER_PORT + 1)); done
export MASTER_ADDR MASTER_PORT"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """The job to launch."""

    command: Sequence[str]
    """The training script and its options."""
    nodes: int = 2
    """The number of nodes."""
    ranks_per_node: int = 8
    """The ranks of each node."""
    cpus: int = 64
    """The CPUs of each node."""
    gpus: bool = True
    """Whether it runs on GPUs."""
    interface: str | None = None
    """The network interface; None for the one that leads to MASTER_ADDR."""
    hours: int = 24
    """Its time limit in hours."""
    image: str = ""
    """The container image."""
    name: str = "ddp"
    """The name that the scheduler shows."""
    container: str = ""
    """What runs `image` under Slurm: `pyxis` (enroot) or `apptainer`; empty for no container."""

    @property
    def threads(self) -> int:
        """The OpenMP threads of each rank: torchrun's default of 1 starves data loading and CPU work."""
        return max(1, self.cpus // self.ranks_per_node)


def slurm(job: JobSettings) -> str:
    """A batch script: one torchrun a node, whose ranks meet on the first node at a port that was free there."""
    gpus = f"#SBATCH --gpus-per-node={job.ranks_per_node}\n" if job.gpus else ""
    return f"""#!/bin/bash
#SBATCH --job-name={job.name}
#SBATCH --nodes={job.nodes}
#SBATCH --ntasks-per-node=1
{gpus}#SBATCH --cpus-per-task={job.cpus}
#SBATCH --time={job.hours}:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail

{SLURM_RENDEZVOUS}
# Every node writes what it saw here, so that one report names ranks of all nodes: a directory that all of them share.
export CASE="$SLURM_SUBMIT_DIR/ddpdoctor-$SLURM_JOB_ID${{SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}}"

# torchrun's default of one OpenMP thread per rank starves data loading and CPU work.
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK > {job.ranks_per_node} ? SLURM_CPUS_PER_TASK / {job.ranks_per_node} : 1))
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # since Slurm 22.05 srun does not inherit --cpus-per-task
{_interface(job)}
# The job on one node, watched: a hang or a crash is explained in the output, and ends it instead of waiting for --time.
start_ranks() {{
    exec ddpdoctor watch --case "$CASE" --stall-after {PATIENCE_SECONDS} --kill-on-hang -- \\
        torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" --nproc-per-node {job.ranks_per_node} \\
        --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" {shlex.join(job.command)}
}}
{_steps(job, "start_ranks")}"""


def _steps(job: JobSettings, start: str) -> str:
    """The end of a batch script: the preflight and the job, each a step of Slurm's that calls functions of the script.

    A shell inside a container gets the functions as text: what carries variables into it may drop exported functions.
    """
    before = "# Before the job: can the nodes reach each other? Ends the batch job where they cannot.\n"
    if not job.container:
        return (
            f"export -f choose_interface {start}\n\n{before}"
            f"srun bash -c 'choose_interface; exec ddpdoctor {PREFLIGHT}'\n"
            f"srun --kill-on-bad-exit=1 bash -c 'choose_interface; {start}'\n"
        )
    image = shlex.quote(job.image)
    gpus = " --nv" if job.gpus else ""
    prefix = {
        "pyxis": f'--container-image={image} --container-mounts="$SLURM_SUBMIT_DIR:$SLURM_SUBMIT_DIR"'
        '\n    --container-workdir="$SLURM_SUBMIT_DIR"',
        "apptainer": f'apptainer exec{gpus} --bind "$SLURM_SUBMIT_DIR" --pwd "$SLURM_SUBMIT_DIR" {image}',
    }[job.container]
    return f"""
# The image holds torch and ddpdoctor (`pip install ddpdoctor`). The directory of the job is mounted, for the script and the case.
container=({prefix})
functions=$(declare -f choose_interface {start})

{before}srun "${{container[@]}}" bash -c "$functions; choose_interface; exec ddpdoctor {PREFLIGHT}"
srun --kill-on-bad-exit=1 "${{container[@]}}" bash -c "$functions; choose_interface; {start}"
"""


CASE_DIRECTORY = """\
case=${CASE:-ddpdoctor-case}
[ ! -e "$case/case.json" ] || case="$case-$(date +%s)"
"""


def torchrun(job: JobSettings) -> str:
    """A script that is started on every node by hand, with that node's number; on one node alone without one."""
    if job.nodes == 1:
        return _torchrun_on_one_node(job)
    return f"""#!/bin/bash
# Start it on each of the {job.nodes} nodes:   MASTER_ADDR=<node 0> NODE_RANK=<0 to {job.nodes - 1}> ./launch.sh
set -euo pipefail

: "${{MASTER_ADDR:?set it to the name or address of node 0, as the other nodes know it}}"
: "${{NODE_RANK:?set it to the number of this node, from 0 to {job.nodes - 1}}}"
export MASTER_ADDR MASTER_PORT=${{MASTER_PORT:-{PORT}}}  # the same on every node
export OMP_NUM_THREADS={job.threads}
{_interface(job)}choose_interface
torchrun=(torchrun --nnodes {job.nodes} --node-rank "$NODE_RANK"
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT")

# Before the job: can the nodes reach each other? Waits a minute for the others.
"${{torchrun[@]}}" --nproc-per-node 1 -m ddpdoctor {PREFLIGHT}

# The job, watched: a hang or a crash is explained in the output, and a hang ends the job.
# On a file system that all nodes share, one report names ranks of all nodes. A pod that restarts keeps its earlier case.
{CASE_DIRECTORY}exec ddpdoctor watch --case "$case" --stall-after {PATIENCE_SECONDS} --kill-on-hang -- \\
    "${{torchrun[@]}}" --nproc-per-node {job.ranks_per_node} {shlex.join(job.command)}
"""


def _torchrun_on_one_node(job: JobSettings) -> str:
    """No address and no number: torchrun's ranks meet at a free port of the node itself."""
    chosen = "".join(f'export {name}="{value}"\n' for name, value in interface_variables(job).items())
    return f"""#!/bin/bash
# Start it on the node:   ./launch.sh
set -euo pipefail

export OMP_NUM_THREADS={job.threads}
{chosen}
# Before the job: is this node fit?
ddpdoctor env

# The job, watched: a hang or a crash is explained in the output, and a hang ends the job.
{CASE_DIRECTORY}exec ddpdoctor watch --case "$case" --stall-after {PATIENCE_SECONDS} --kill-on-hang -- \\
    torchrun --standalone --nproc-per-node {job.ranks_per_node} {shlex.join(job.command)}
"""


def k8s(job: JobSettings) -> str:
    """An Indexed Job with the headless Service that gives its pods names; one pod per node."""
    address = {"MASTER_ADDR": f"{job.name}-0.{job.name}", "MASTER_PORT": f'"{PORT}"'}
    return f"""# kubectl apply -f FILE; the logs of the pod with index 0 hold the report
apiVersion: v1
kind: Service
metadata:
  name: {job.name}
spec:
  clusterIP: None  # gives each pod the name {job.name}-INDEX.{job.name}
  publishNotReadyAddresses: true  # the ranks meet before any pod is ready
  selector: {{job-name: {job.name}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {job.name}
spec:
  completionMode: Indexed
  completions: {job.nodes}
  parallelism: {job.nodes}
  backoffLimit: 0  # a pod that comes back alone cannot join ranks that are gone
  activeDeadlineSeconds: {job.hours * 3600}
  template:
    spec:
      subdomain: {job.name}
      restartPolicy: Never
{indent(_containers(job, "ranks", "JOB_COMPLETION_INDEX", address), 6 * " ")}"""


def _containers(job: JobSettings, name: str, node_rank: str, address: Mapping[str, str]) -> str:
    """The container and the volume of a pod; `node_rank` is the variable that has its number, `address` the rendezvous."""
    gpus = f"\n        nvidia.com/gpu: {job.ranks_per_node}" if job.gpus else ""
    variables = {**address, "OMP_NUM_THREADS": f'"{job.threads}"', **interface_variables(job)}
    env = "".join(f"\n      - {{name: {variable}, value: {value}}}" for variable, value in variables.items())
    return f"""containers:
  - name: {name}
    image: {job.image}
    command: [bash, -c]
    args:
      - |
        set -euo pipefail
        torchrun=(torchrun --nnodes {job.nodes} --node-rank "${node_rank}"
                  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT")
        "${{torchrun[@]}}" --nproc-per-node 1 -m ddpdoctor {PREFLIGHT}
        exec ddpdoctor watch --stall-after {PATIENCE_SECONDS} --kill-on-hang -- \\
          "${{torchrun[@]}}" --nproc-per-node {job.ranks_per_node} {shlex.join(job.command)}
    env:{env}
    resources:
      limits:
        cpu: {job.cpus}{gpus}
    volumeMounts:
      - {{name: shm, mountPath: /dev/shm}}
volumes:
  - name: shm  # the default of 64 MiB is too small for NCCL and for data loader workers
    emptyDir: {{medium: Memory}}
"""


def slurm_tasks(job: JobSettings) -> str:
    """A batch script without torchrun: Slurm starts one task per rank, each under its own `watch`."""
    gpus = f"#SBATCH --gpus-per-node={job.ranks_per_node}\n" if job.gpus else ""
    cpus = max(1, job.cpus // job.ranks_per_node)
    return f"""#!/bin/bash
#SBATCH --job-name={job.name}
#SBATCH --nodes={job.nodes}
#SBATCH --ntasks-per-node={job.ranks_per_node}
{gpus}#SBATCH --cpus-per-task={cpus}
#SBATCH --time={job.hours}:00:00
#SBATCH --output=%x-%j.out
set -euo pipefail

{SLURM_RENDEZVOUS}
# Every rank writes what it saw here, so that one report names all of them: a directory that all nodes share.
export CASE="$SLURM_SUBMIT_DIR/ddpdoctor-$SLURM_JOB_ID${{SLURM_RESTART_COUNT:+-$SLURM_RESTART_COUNT}}"

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK  # since Slurm 22.05 srun does not inherit --cpus-per-task
{_interface(job)}
# What init_process_group reads, from Slurm's names for it; then the rank, watched.
start_rank() {{
    export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE={job.ranks_per_node}
    exec ddpdoctor watch --case "$CASE" --stall-after {PATIENCE_SECONDS} --kill-on-hang -- python {shlex.join(job.command)}
}}
{_steps(job, "start_rank")}"""


def pytorchjob(job: JobSettings) -> str:
    """A PyTorchJob of the Kubeflow training operator, which sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE of its pods."""
    workers = f"\n    Worker:\n      replicas: {job.nodes - 1}{_replica(job)}" if job.nodes > 1 else ""
    return f"""# kubectl apply -f FILE; the logs of the pod {job.name}-master-0 hold the report
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {job.name}
spec:
  nprocPerNode: "{job.ranks_per_node}"
  runPolicy:
    activeDeadlineSeconds: {job.hours * 3600}
    backoffLimit: 0  # a pod that comes back alone cannot join ranks that are gone
  pytorchReplicaSpecs:
    Master:
      replicas: 1{_replica(job)}{workers}
"""


def _replica(job: JobSettings) -> str:
    """A pod of a PyTorchJob; the operator's RANK and WORLD_SIZE count pods, so that torchrun takes them as nodes."""
    return f"""
      restartPolicy: Never
      template:
        spec:
{indent(_containers(job, "pytorch", "RANK", {}), 10 * " ").rstrip()}"""


SCRIPTS: Mapping[str, Callable[[JobSettings], str]] = {
    "slurm": slurm,
    "slurm-tasks": slurm_tasks,
    "torchrun": torchrun,
    "k8s": k8s,
    "pytorchjob": pytorchjob,
}


def interface_variables(job: JobSettings) -> dict[str, str]:
    """The variables that choose the interface: `=` makes NCCL take the exact name, which gloo would not understand."""
    if job.interface is None:
        return {}
    return {"NCCL_SOCKET_IFNAME": f"={job.interface}", "GLOO_SOCKET_IFNAME": job.interface}


def _interface(job: JobSettings) -> str:
    """A function of the shell that chooses, on the node that it runs on."""
    if job.interface is not None:
        chosen = " ".join(f'{name}="{value}"' for name, value in interface_variables(job).items())
        return f"choose_interface() {{ export {chosen}; }}\n"
    return CHOOSE_INTERFACE
