"""DDP145 compute-mode-refuses-ranks."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0, compute_mode="prohibited"))),
        says="GPU 0 of host-a is in compute mode prohibited",
        hosts=("host-a",),
        measured={"gpu": 0, "mode": "prohibited"},
    ),
)
HEALTHY = (
    one_host(gpus(Gpu(index=0, compute_mode="default"), Gpu(index=1, compute_mode="exclusive-process", processes=()))),
)
