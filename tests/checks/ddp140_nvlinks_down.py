"""DDP140 nvlinks-down."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


def h100(index: int, up: int, name: str = "NVIDIA H100 80GB HBM3") -> Gpu:
    return Gpu(index=index, name=name, nvlinks=tuple(link < up for link in range(18)))


SICK = (
    Sick(
        evidence=one_host(gpus(h100(0, 18), h100(1, 15))),
        says="15 of 18 NVLinks of GPU 1 (NVIDIA H100 80GB HBM3) of host-a are up",
        hosts=("host-a",),
        measured={"gpu": 1, "active": 15, "links": 18, "down": [15, 16, 17]},
    ),
)
HEALTHY = (
    one_host(gpus(h100(0, 18), h100(1, 18))),
    one_host(gpus(h100(0, 0), h100(1, 0))),
    one_host(gpus(h100(0, 12, "NVIDIA H100 PCIe"), h100(1, 0, "NVIDIA H100 PCIe"))),
)
