"""DDP763: every node starts torchrun with the same --node-rank."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, Pods, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP763",
    name="same-node-rank-everywhere",
    summary="every node starts torchrun with the same --node-rank",
    severity=Severity.FAIL,
    remedy="let the task's own shell fill it in, in single quotes: `srun bash -c 'torchrun --node-rank $SLURM_NODEID ...'`; or "
    "use `--rdzv-backend c10d`, which numbers the nodes by itself",
    leads_to=("DDP206", "DDP205"),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each start on several nodes whose number of the node is one constant."""
    for script in launch.scripts:
        numbers = {start.options.values.get("node-rank") for start in script.torchruns}
        for start in script.torchruns:
            if len(numbers) == 1 and (message := _same(script, start)):
                yield RULE.finding(
                    f"{message} on each of the {script.nodes} nodes that srun starts {start.launcher} on",
                    where=[place(script.path, start.line)],
                    nodes=script.nodes,
                )
            elif start.remote and start.command.in_loop and start.static and _constant(start):
                yield RULE.finding(
                    f"--node-rank is {start.options.values['node-rank']} on each host of the loop that starts {start.launcher}",
                    where=[place(script.path, start.line)],
                    nodes=start.options.number("nnodes") or 0,
                )
            elif len(numbers) == 1 and start.at_once and start.static and _constant(start):
                yield RULE.finding(
                    f"--node-rank is {start.options.values['node-rank']} on each host that {start.at_once} starts "
                    f"{start.launcher} on",
                    where=[place(script.path, start.line)],
                    remedy="start each host with a number of its own, in a loop over the hosts; or use `--rdzv-backend c10d`, "
                    "which numbers the nodes by itself",
                    nodes=start.options.number("nnodes") or 0,
                )
    for pods in launch.manifests:
        yield from _in_pods(pods)


def _constant(start: Torchrun) -> bool:
    """Whether several nodes get one number that is written out."""
    return start.options.values.get("node-rank", "").isdecimal() and (start.options.number("nnodes") or 1) > 1


def _same(script: LaunchScript, start: Torchrun) -> str:
    """What makes the number the same; empty where it differs, is not needed, or is not known."""
    step, given = start.step, start.options.values.get("node-rank")
    nodes = (script.step_nodes(step) or script.asked_nodes or 1) if step is not None else 1
    if (
        step is None
        or nodes < 2
        or not start.static
        or not {"w", "nodelist"}.isdisjoint(step.values)
        or start.command.in_loop
    ):
        return ""
    if (start.options.number("nnodes") or 1) < 2:
        return ""
    if given is None:
        named = any(setting.name in {"PET_NODE_RANK", "NODE_RANK"} for setting in script.script.variables)
        known = start.launcher not in {"accelerate launch", "deepspeed"} and start.options.complete and not named
        return "without --node-rank torchrun takes 0" if known else ""
    return f"--node-rank is {given}" if given.isdecimal() else ""


def _in_pods(pods: Pods) -> Iterator[Finding]:
    yield from _in_several_containers(pods)
    for container, starts in pods.torchruns:
        for start in starts:
            given = start.options.values.get("node-rank", "")
            several = start.always and container.replicas is not None and container.replicas > 1
            if several and start.static and given.isdecimal() and (start.options.number("nnodes") or 1) > 1:
                yield RULE.finding(
                    f"--node-rank is {given} in each of the {container.replicas} {pods.unit}s of {container.name}",
                    where=[place(pods.manifest.path, start.line)],
                    remedy="use the number that the pod is given: `--node-rank=$(RANK)` in a PyTorchJob, "
                    "`$JOB_COMPLETION_INDEX` in an Indexed Job"
                    if pods.unit == "pod"
                    else "use the number that SkyPilot gives the node: `--node-rank=$SKYPILOT_NODE_RANK`",
                    nodes=container.replicas,
                )


def _in_several_containers(pods: Pods) -> Iterator[Finding]:
    """Services, or roles with one pod each, that start one job: each needs a number of its own."""
    first: dict[tuple[str, ...], str] = {}
    for container, starts in pods.torchruns:
        for start in starts:
            judged = start.always and start.static and _constant(start)
            if container.replicas != 1 or container.profiles or not judged:
                continue  # services with profiles are alternatives
            values = start.options.values
            job = tuple(values.get(name, "") for name in ("nnodes", "master-addr", "master-port", "node-rank"))
            if job in first and first[job] != container.name:
                yield RULE.finding(
                    f"--node-rank is {values['node-rank']} in {container.name}, as in {first[job]}",
                    where=[place(pods.manifest.path, start.line)],
                    remedy="give each a number of its own, from 0 on",
                    nodes=start.options.number("nnodes") or 0,
                )
            first.setdefault(job, container.name)
