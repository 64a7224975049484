"""DDP135 gpu-clocks-held-down."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=2, clock_reasons=0x48, temperature_celsius=91))),
        says="GPU 2 of host-a runs at reduced clocks at 91 C: hardware thermal slowdown, hardware slowdown",
        hosts=("host-a",),
        measured={"gpu": 2, "reasons": 72},
    ),
    Sick(
        evidence=one_host(gpus(Gpu(index=2, clock_reasons=0x2))),
        says="GPU 2 of host-a runs at reduced clocks: application clocks",
        hosts=("host-a",),
        measured={"gpu": 2, "reasons": 2},
        severity=Severity.WARN,
    ),
)
HEALTHY = (
    one_host(gpus(Gpu(index=0, clock_reasons=0x1), Gpu(index=1, clock_reasons=0x4), Gpu(index=2, clock_reasons=0x0))),
    one_host(gpus(Gpu(index=0, clock_reasons=0x9), Gpu(index=1, clock_reasons=0x3))),
)
