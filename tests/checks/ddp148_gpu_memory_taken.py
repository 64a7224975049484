"""DDP148 gpu-memory-taken."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=4, memory_used_bytes=12 * 2**30))),
        says="12.0 GiB of the memory of GPU 4 of host-a are in use",
        hosts=("host-a",),
        measured={"gpu": 4, "used_bytes": 12884901888},
        severity=Severity.FAIL,
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=4, memory_used_bytes=4 * 2**20))),)
