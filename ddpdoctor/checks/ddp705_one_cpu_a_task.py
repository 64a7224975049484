"""DDP705: a Slurm task that starts several ranks gets a single CPU for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP705",
    name="one-cpu-a-task",
    summary="the ranks and loader workers of a Slurm task share a single CPU",
    severity=Severity.WARN,
    remedy="request the CPUs, `#SBATCH --cpus-per-task=N`, and pass them on: `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK` "
    "(since Slurm 22.05 srun does not inherit them)",
    leads_to=("DDP603",),
)
_CPUS_OF_A_STEP = ("cpus-per-task", "cpus-per-gpu", "exact", "exclusive", "cpu-bind")
_TASKS = ("ntasks-per-node", "ntasks", "ntasks-per-gpu", "mincpus")


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each batch script whose torchrun runs on one CPU."""
    for script in launch.scripts:
        yield from _of_tasks(script)
        if not script.torchruns or not script.shared or script.option("cpus-per-gpu"):
            continue
        start = next((each for each in script.torchruns if each.step is not None), script.torchruns[0])
        if found := _one_cpu(script, start):
            message, line = found
            yield RULE.finding(message, where=[place(script.path, line)])


def _one_cpu(script: LaunchScript, start: Torchrun) -> tuple[str, int] | None:
    asked = script.option("cpus-per-task")
    own = start.step is not None and any(name in start.step.values for name in _CPUS_OF_A_STEP)
    passed_on = own or any(setting.name == "SRUN_CPUS_PER_TASK" for setting in script.script.variables)
    if start.step is None and (start.remote or any(_several(script, name) for name in _TASKS)):
        return None  # the batch step itself has the CPUs of all tasks on its node
    if asked is None and not passed_on:
        return "no --cpus-per-task: the task that starts torchrun gets one CPU for all its ranks", start.line
    if asked is not None and asked.value == "1" and not own:
        return "--cpus-per-task=1: the task that starts torchrun has one CPU for all its ranks", asked.line
    if asked is not None and start.step is not None and not passed_on:
        return (
            f"--cpus-per-task={asked.value} is not inherited by srun since Slurm 22.05: its task gets one CPU",
            start.line,
        )
    return None


def _of_tasks(script: LaunchScript) -> Iterator[Finding]:
    """The ranks that srun starts itself, without the CPUs that the job asked for."""
    asked = script.option("cpus-per-task")
    if asked is None or asked.value == "1" or not script.shared or script.option("cpus-per-gpu"):
        return
    if any(setting.name == "SRUN_CPUS_PER_TASK" for setting in script.script.variables):
        return
    for tasks in script.rank_tasks:
        if not any(name in tasks.step.values for name in _CPUS_OF_A_STEP):
            yield RULE.finding(
                f"--cpus-per-task={asked.value} is not inherited by srun since Slurm 22.05: each rank gets one CPU",
                where=[place(script.path, tasks.line)],
            )
            return


def _several(script: LaunchScript, name: str) -> bool:
    """Whether the script asks for more than one of these."""
    asked = script.option(name)
    return asked is not None and asked.value != "1"
