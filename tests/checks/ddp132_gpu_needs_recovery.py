"""DDP132 gpu-needs-recovery."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0, recovery_action=0), Gpu(index=1, recovery_action=2))),
        says="GPU 1 of host-a: the driver requests a host reboot",
        hosts=("host-a",),
        measured={"gpu": 1, "action": 2},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=0, recovery_action=0))),)
