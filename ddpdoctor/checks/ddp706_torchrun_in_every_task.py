"""DDP706: srun starts a task per GPU, and each task starts torchrun with a rank per GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP706",
    name="torchrun-in-every-task",
    summary="several tasks on a node each start torchrun with several ranks",
    severity=Severity.FAIL,
    remedy="start one torchrun per node, `#SBATCH --ntasks-per-node=1` with all CPUs in `--cpus-per-task`; or keep one task per "
    "GPU and leave torchrun out, with RANK, WORLD_SIZE and LOCAL_RANK from SLURM_PROCID, SLURM_NTASKS and SLURM_LOCALID",
    leads_to=("DDP207", "DDP415"),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each torchrun that more than one task per node starts with more than one rank."""
    for script in launch.scripts:
        for start in script.torchruns:
            if start.step is None or not start.step.complete:
                continue
            tasks = script.tasks_per_node(start.step)
            per_task = start.options.values.get("nproc-per-node", "")
            ranks = start.ranks_per_node
            every_gpu = per_task in {"gpu", "auto"} or (start.launcher == "deepspeed" and not per_task)
            several = (ranks or 0) > 1 or every_gpu
            if tasks is not None and tasks > 1 and several and not _task_is_node(script, start, tasks):
                yield RULE.finding(
                    f"srun starts {start.launcher} in {tasks} tasks per node, and each starts "
                    f"{f'{ranks} ranks' if ranks is not None else 'a rank per GPU'}",
                    where=[place(script.path, start.line)],
                    tasks_per_node=tasks,
                )


def _task_is_node(script: LaunchScript, start: Torchrun, tasks: int) -> bool:
    """Whether torchrun is told that each task is a node of its own."""
    nnodes = start.options.values.get("nnodes", "")
    nodes = script.step_nodes(start.step) or script.asked_nodes or 1
    return nnodes == str(tasks * nodes) or "TASKS" in nnodes or "NPROCS" in nnodes
