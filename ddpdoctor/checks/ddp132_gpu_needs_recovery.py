"""The driver itself asks for a reset, a reboot or a drain.

NVML names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_values import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP132",
    name="gpu-needs-recovery",
    summary="the driver itself asks for a reset, a reboot or a drain",
    severity=Severity.FAIL,
    remedy="drain the host and do what the driver asks for before any job runs on this GPU",
)

ACTIONS = {  # NVML_GPU_RECOVERY_ACTION_*
    1: "a reset of the GPU",
    2: "a reboot of the host",
    3: "that its peers be drained, then a reset",
    4: "that it be drained, then a reset",
    5: "that its IMEX domain be recovered",
    6: "a reset of its bus",
    7: "a reboot of the system",
}


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding a GPU that needs an action."""
    for host, gpu, action in readable(gpus, "recovery_action", lambda gpu: gpu.recovery_action):
        if action != 0:
            asked = ACTIONS.get(action, f"action {action}, which this version does not know")
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} asks for {asked}",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                action=action,
            )
