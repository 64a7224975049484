"""DDP707: a batch script for several nodes starts torchrun without srun, so that it runs on the first node only."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun, program_of
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP707",
    name="torchrun-on-first-node-only",
    summary="a batch script for several nodes starts torchrun on the first of them only",
    severity=Severity.FAIL,
    remedy="put srun in front, one task per node: `srun --ntasks-per-node=1 torchrun ...`",
    leads_to=("DDP205",),
)

_STARTERS = {"Slurm": "srun", "PBS": "pbsdsh, mpirun or ssh", "LSF": "jsrun, blaunch or ssh"}
_REMEDIES = {
    "PBS": "start it once on each node: `mpirun --ppn 1 torchrun ...`, or `pbsdsh`",
    "LSF": "start it once on each node: `jsrun -r 1 -a 1 -g ALL_GPUS -c ALL_CPUS torchrun ...`, or `blaunch`",
}
_HERE = frozenset(
    {
        "torchrun", "accelerate", "time", "nohup", "exec", "env", "timeout", "numactl", "singularity", "apptainer", "docker",
        "podman", "conda", "mamba", "micromamba", "uv", "poetry", "bash", "sh",
    }
)  # fmt: skip
"""What runs a command on this node; another program in front may reach other nodes."""
_THROUGH = frozenset({"time", "nohup", "exec", "env"})


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each torchrun that the batch shell itself starts although the job has several nodes."""
    for script in launch.scripts:
        nodes = script.asked_nodes
        if not script.batch or nodes is None or nodes < 2:
            continue
        if any(program_of(command.words) == "sbatch" for command in script.script.commands):
            continue  # the options may be those of another script, which this one writes
        if any(start.remote for start in script.torchruns):
            continue  # the shell starts the ranks of the first node itself, and those of the others by ssh
        for start in script.torchruns:
            if script.script.scheduler != "Slurm" and not _known_in_front(start):
                continue  # it may start torchrun on all nodes
            if start.launcher == "deepspeed":  # reads /job/hostfile, and reaches the other nodes by itself
                continue
            if start.step is not None or start.remote or not start.always or start.command.in_loop:
                continue
            wanted = start.options.number("nnodes")
            if wanted is not None and wanted > 1:
                yield RULE.finding(
                    f"{start.launcher} waits for {wanted} nodes, and only the first of {nodes} starts it: there is no "
                    f"{_STARTERS[script.script.scheduler]} in front",
                    where=[place(script.path, start.line)],
                    remedy=_REMEDIES.get(script.script.scheduler),
                    nodes=nodes,
                )
            elif start.options.complete and (wanted == 1 or "nnodes" not in start.options.values):
                yield RULE.finding(
                    f"the job has {nodes} nodes, and {start.launcher} runs on the first alone: the others are idle",
                    where=[place(script.path, start.line)],
                    severity=Severity.WARN,
                    remedy=_REMEDIES.get(script.script.scheduler)
                    or "start it on all of them, `srun --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES ...`; or ask for "
                    "one node",
                    nodes=nodes,
                )


def _known_in_front(start: Torchrun) -> bool:
    """Whether the first program of the command is one that starts torchrun on this node."""
    names = [program_of([word]) for word in (*start.command.within, *start.command.words)]
    first = next((name for name in names if name not in _THROUGH), "")
    return first in _HERE or first.startswith("python")
