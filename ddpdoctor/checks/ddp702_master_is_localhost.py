"""DDP702: a script for several nodes sends every node to itself."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, Pods, place
from ddpdoctor.analysis.launch.rank_starts import Torchrun
from ddpdoctor.evidence.scripts import Container
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP702",
    name="master-is-localhost",
    summary="a script for several nodes uses localhost as the rendezvous address",
    severity=Severity.FAIL,
    remedy='use the first node: `MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)` under Slurm',
    leads_to=("DDP222", "DDP205"),
)
_ADDRESSES = ("master-addr", "rdzv-endpoint")
_IN_PODS = (
    "use an address of the first pod: `--master-addr=$(MASTER_ADDR)` in a PyTorchJob, a headless service elsewhere"
)
_REMEDIES = {"SkyPilot": 'use the first node: `MASTER_ADDR=$(echo "$SKYPILOT_NODE_IPS" | head -n1)`'}
_LOOPBACK = ("localhost", "127.", "::1", "[::1]")


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each loopback address or `--standalone` in a script for several nodes."""
    for script in launch.scripts:
        if script.nodes < 2:
            continue
        for program, each in script.overwritten("MASTER_ADDR"):
            if each.value.startswith(_LOOPBACK):
                yield RULE.finding(
                    f"the program sets MASTER_ADDR to {each.value}, and {script.path} starts it on {script.nodes} nodes, "
                    "so every node tries to rendezvous with itself",
                    where=[place(program.path, each.line)],
                    nodes=script.nodes,
                )
        for message, line in _itself(script):
            yield RULE.finding(
                f"{message} in a script for {script.nodes} nodes, so every node tries to rendezvous with itself",
                where=[place(script.path, line)],
                nodes=script.nodes,
            )
    for pods in launch.manifests:
        yield from _in_pods(pods)


def _in_pods(pods: Pods) -> Iterator[Finding]:
    """One finding for each start in a container of several pods that names the pod itself."""
    for container, starts in pods.torchruns if pods.manifest.kind not in {"compose", "MPIJob"} else ():
        several = _copies(pods, container)
        for start in starts if several is not None and several > 1 else ():
            for message in _named(start):
                yield RULE.finding(
                    f"{message} in each of {several} {pods.unit}s, so every {pods.unit} tries to rendezvous with itself",
                    where=[place(pods.manifest.path, start.line)],
                    remedy=_REMEDIES.get(pods.manifest.kind, _IN_PODS),
                    nodes=several,
                )


def _named(start: Torchrun) -> list[str]:
    """The options by which each node of a job looks for the others in itself."""
    values = start.options.values
    several = start.always and (start.options.number("nnodes") or 1) > 1
    return [f"--{name}={values[name]}" for name in _ADDRESSES if several and values.get(name, "").startswith(_LOOPBACK)]


def _copies(pods: Pods, container: Container) -> int | None:
    """The pods that look for the job in themselves: those of all roles of a PyTorchJob only where all do."""
    saying = [each for each, starts in pods.torchruns if any(_named(start) for start in starts)]
    if pods.manifest.kind != "PyTorchJob" or {each.role for each in saying} != {
        each.role for each in pods.manifest.containers
    }:
        return container.replicas
    replicas = [each.replicas for each in saying]
    return None if None in replicas else sum(each or 0 for each in replicas)


def _itself(script: LaunchScript) -> Iterator[tuple[str, int]]:
    """What sends a node to itself, with the line."""
    named = [setting for setting in script.always_sets("MASTER_ADDR") if setting.value.startswith(_LOOPBACK)]
    yield from ((f"MASTER_ADDR={setting.value}", setting.line) for setting in named)
    for start in script.torchruns:
        if not start.always or script.step_nodes(start.step) == 1:
            continue
        for name in _ADDRESSES:
            value = start.options.values.get(name, "")
            if value.startswith(_LOOPBACK) and not named:
                yield f"--{name}={value}", start.line
        if "standalone" in start.options.values and start.step is not None:
            yield "--standalone", start.line
        if start.alone and start.step is not None and script.tasks_per_node(start.step) == 1:
            yield "srun starts `deepspeed` without --no_ssh and --node_rank", start.line
