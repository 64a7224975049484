"""DDP709: a launch starts fewer ranks on a node than it asks for GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP709",
    name="gpus-left-idle",
    summary="a launch starts fewer ranks on a node than it asks for GPUs",
    severity=Severity.INFO,
    remedy="start a rank for each GPU, `--nproc-per-node=gpu`, or ask for fewer GPUs; a rank that uses several GPUs is fine",
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each script whose only torchrun leaves GPUs without a rank."""
    for script in launch.scripts:
        if len(script.torchruns) != 1 or any(script.always_sets("CUDA_VISIBLE_DEVICES")):
            continue
        (start,) = script.torchruns
        ranks, asked = start.ranks_per_node, script.gpus_per_node(start.step)
        if (
            ranks is None
            or asked is None
            or not start.always
            or (start.step is not None and script.tasks_per_node(start.step) != 1)
        ):
            continue
        gpus, line = asked
        if 0 < ranks < gpus:
            started = f"{ranks} {'rank' if ranks == 1 else 'ranks'}"
            yield RULE.finding(
                f"the job asks for {gpus} GPUs per node, and {start.launcher} starts {started} there",
                where=[place(script.path, start.line), *([place(script.path, line)] if line else [])],
                ranks_per_node=ranks,
                gpus=gpus,
            )
