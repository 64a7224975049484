"""The driver requests a reset, a reboot or a drain.

NVML names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity

# a failed controller of the GPU, NVLink, the GPU's own processor, an error that only a reset clears
_XID = r"NVRM: Xid \(PCI:(?P<pci>[\w:.]{1,20})\): (?P<xid>62|74|119|120|140|154)\b"
REMEDY = "leave this GPU out, and reset it (`nvidia-smi -r -i INDEX`); where the Xid comes back, have the GPU replaced"
RULE = Rule(
    code="DDP132",
    name="gpu-needs-recovery",
    summary="the driver requests a reset, a reboot or a drain",
    severity=Severity.FAIL,
    remedy="drain the host and carry out the requested action before another job uses this GPU",
    explains=("DDP401", "DDP408", "DDP418", "DDP423"),
    background=True,
    errors=(
        ErrorPattern(
            regex=rf"(?P<host>[\w.-]{{1,60}}) kernel: {_XID}",
            sentence="the GPU at PCI address {pci} of {host} failed{on}: the driver reports Xid {xid}",
            remedy=REMEDY,
        ),
        ErrorPattern(
            regex=_XID,
            sentence="the GPU at PCI address {pci} failed{on}: the driver reports Xid {xid}",
            remedy=REMEDY,
        ),
    ),
)

ACTIONS = {  # NVML_GPU_RECOVERY_ACTION_*
    1: "a GPU reset",
    2: "a host reboot",
    3: "a drain of its peer GPUs, then a reset",
    4: "a drain, then a reset",
    5: "a recovery of its IMEX domain",
    6: "a bus reset",
    7: "a system reboot",
}


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU that needs an action."""
    for host, gpu, action in readable(gpus, "recovery_action", lambda gpu: gpu.recovery_action):
        if action != 0:
            asked = ACTIONS.get(action, f"action {action}, which this version of ddpdoctor does not know")
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host}: the driver requests {asked}",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                action=action,
            )
