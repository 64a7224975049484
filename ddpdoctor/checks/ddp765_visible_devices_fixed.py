"""DDP765: a batch script overwrites the GPUs that Slurm gave it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.evidence.scripts import Setting
from ddpdoctor.model import Finding, Rule, Severity
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP765",
    name="visible-devices-fixed",
    summary="a batch script sets CUDA_VISIBLE_DEVICES to fixed numbers, in place of the GPUs that Slurm gave it",
    severity=Severity.WARN,
    remedy="remove the line: Slurm sets CUDA_VISIBLE_DEVICES for each job and task",
    leads_to=("DDP126", "DDP147"),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each batch script that asks Slurm for GPUs, and takes fixed ones on nodes that may be shared."""
    for script in launch.scripts:
        steps = [*(start.step for start in script.torchruns), *(tasks.step for tasks in script.rank_tasks)]
        asked = script.gpus_per_node(steps[0]) if steps else None
        if not script.shared or asked is None:
            continue
        for setting in script.always_sets("CUDA_VISIBLE_DEVICES"):
            devices = {whole_number(part.strip()) for part in setting.value.split(",")}
            numbers = {device for device in devices if device is not None}
            if numbers == devices:
                yield _finding(script, setting, numbers, asked[0])


def _finding(script: LaunchScript, setting: Setting, devices: set[int], gpus: int) -> Finding:
    """A warning, but information where the numbers are right on a cluster that shows a job its own GPUs alone."""
    renumbered = max(devices) < gpus
    return RULE.finding(
        f"CUDA_VISIBLE_DEVICES={setting.value} replaces the {gpus} {'GPU' if gpus == 1 else 'GPUs'} that Slurm gives the job, "
        + ("which have other numbers where Slurm does not confine devices" if renumbered else "and names others"),
        where=[place(script.path, setting.line)],
        severity=Severity.INFO if renumbered else Severity.WARN,
        gpus=gpus,
    )
