"""DDP146 persistence-mode-off."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0, persistence=False), Gpu(index=1, persistence=False))),
        says="persistence mode is off on 2 of 2 GPUs of host-a",
        hosts=("host-a",),
        measured={"gpus": [0, 1]},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=0, persistence=True))),)
