"""DDP762: the OpenMP threads of all ranks of a task are more than its CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.model import Finding, Rule, Severity
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP762",
    name="more-threads-than-cpus",
    summary="OMP_NUM_THREADS times the ranks is more than the CPUs that they get",
    severity=Severity.WARN,
    remedy="give each rank its share: `export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / RANKS_PER_NODE))`",
    leads_to=("DDP603",),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each torchrun whose ranks have more threads than CPUs."""
    for script in launch.scripts:
        for start in script.torchruns:
            threads = script.set_for("OMP_NUM_THREADS", start)
            cpus, ranks = _cpus(script, start), start.ranks_per_node
            many = whole_number(threads.value) if threads is not None else None
            if threads is not None and many is not None and cpus and ranks and start.always:
                yield from _finding(many, ranks, cpus, script.path, threads.line)
        for tasks in script.rank_tasks if script.shared else ():
            threads = script.set_for("OMP_NUM_THREADS", tasks)
            asked = script.option("cpus-per-task")
            each_has = tasks.step.values.get("cpus-per-task", "") or (asked.value if asked is not None else "")
            many, cpus = whole_number(threads.value) if threads is not None else None, whole_number(each_has)
            if threads is not None and many is not None and cpus is not None:
                all_cpus = cpus * tasks.per_node
                yield from _finding(many, tasks.per_node, all_cpus, script.path, threads.line)
    for pods in launch.manifests:
        for container, starts in pods.torchruns:
            given = next((each for each in container.variables if each.name == "OMP_NUM_THREADS"), None)
            for start in starts:
                ranks = pods.ranks(container, start)
                many = whole_number(given.value) if given is not None else None
                if given is not None and many is not None and container.cpus and ranks:
                    yield from _finding(many, ranks, container.cpus, pods.manifest.path, given.line)


def _finding(threads: int, ranks: int, cpus: float, path: str, line: int) -> Iterator[Finding]:
    if threads * ranks > cpus:
        yield RULE.finding(
            f"{ranks} ranks with OMP_NUM_THREADS={threads} have {threads * ranks} threads, and {cpus:g} CPUs to run them",
            where=[place(path, line)],
            threads=threads * ranks,
            cpus=cpus,
        )


def _cpus(script: LaunchScript, start: Torchrun) -> int | None:
    """The CPUs of the task that starts torchrun; None where no number says it, or the job has the node alone."""
    if not script.shared:
        return None
    asked = script.option("cpus-per-task")
    own = start.step.values.get("cpus-per-task", "") if start.step is not None else ""
    cpus = whole_number(own or (asked.value if asked is not None else ""))
    if cpus is None or start.remote or start.step is not None:
        return None if start.remote else cpus
    tasks = script.option("ntasks-per-node") or script.option("ntasks")
    each = whole_number(tasks.value) if tasks is not None else 1
    return cpus * each if each is not None else None  # the batch shell has those of all tasks
