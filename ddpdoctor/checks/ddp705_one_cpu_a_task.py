"""DDP705: a Slurm task that starts several ranks gets a single CPU for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.shell_script import LaunchScript, LaunchScripts
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP705",
    name="one-cpu-a-task",
    summary="the ranks and loader workers of a Slurm task share a single CPU",
    severity=Severity.WARN,
    remedy="request the CPUs, `#SBATCH --cpus-per-task=N`, and pass them on: `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK` "
    "(since Slurm 22.05 srun does not inherit them)",
)
_TO_SRUN = r"\bsrun\b.*(?:\s-c\s*\S|--cpus-per-(?:task|gpu)|--exact\b|--cpu-bind=none)"

_TASKS = ("ntasks-per-node", "ntasks", "ntasks-per-gpu", "mincpus")


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each batch script whose torchrun runs on one CPU."""
    for script in launch.scripts:
        torchrun = script.torchrun
        if not script.batch or torchrun is None or script.option("exclusive") or script.option("cpus-per-gpu"):
            continue
        if said := _one_cpu(script):
            message, line = said
            yield RULE.finding(
                message, where=[Where(rank=None, file=script.path, line=line or torchrun.number, function="")]
            )


def _one_cpu(script: LaunchScript) -> tuple[str, int] | None:
    asked = script.option("cpus-per-task")
    passed_on = any(script.found(r"\bSRUN_CPUS_PER_TASK=")) or any(script.found(_TO_SRUN))
    srun = next((line for line, _ in script.found(r"\bsrun\b.*\b(?:torchrun|torch\.distributed)")), None)
    if srun is None and any(_several(script, name) for name in _TASKS):
        return None  # the batch step itself has the CPUs of all tasks on its node
    if asked is None and not passed_on:
        return "no --cpus-per-task: the task that starts torchrun gets one CPU for all its ranks", 0
    if asked is not None and asked.value == "1":
        return "--cpus-per-task=1: the task that starts torchrun has one CPU for all its ranks", asked.line
    if asked is not None and srun is not None and not passed_on:
        return (
            f"--cpus-per-task={asked.value} is not inherited by srun since Slurm 22.05: its task gets one CPU",
            srun.number,
        )
    return None


def _several(script: LaunchScript, name: str) -> bool:
    """Whether the script asks for more than one of these."""
    asked = script.option(name)
    return asked is not None and asked.value != "1"
