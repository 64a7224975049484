"""DDP127 uncorrected-memory-errors."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0, ecc_uncorrected=0), Gpu(index=5, ecc_uncorrected=2))),
        says="GPU 5 of host-a has 2 uncorrected ECC errors since the driver was loaded",
        hosts=("host-a",),
        measured={"gpu": 5, "errors": 2},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=0, ecc_uncorrected=0), Gpu(index=1, unread={"ecc_uncorrected": "Not Supported"}))),)
