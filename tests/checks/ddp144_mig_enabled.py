"""DDP144 mig-enabled."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0, mig=False), Gpu(index=1, mig=True))),
        says="GPU 1 of host-a is in MIG mode",
        hosts=("host-a",),
        measured={"gpu": 1},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=0, mig=False), Gpu(index=1, unread={"mig": "Not Supported"}))),)
