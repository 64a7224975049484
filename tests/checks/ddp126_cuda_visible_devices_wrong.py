"""DDP126 cuda-visible-devices-wrong."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


FOUR = gpus(*(Gpu(index=index, uuid=f"GPU-{index}a1b2c3d") for index in range(4)))


def visible(value: str) -> Environment:
    return Environment(variables={"CUDA_VISIBLE_DEVICES": value})


SICK = (
    Sick(
        evidence=one_host(FOUR, visible("0,1,7")),
        says="CUDA_VISIBLE_DEVICES=0,1,7 on host-a lists 7, but the host has GPUs 0-3",
        hosts=("host-a",),
        measured={"value": "0,1,7"},
    ),
    Sick(
        evidence=one_host(FOUR, visible("0,0")),
        says="CUDA_VISIBLE_DEVICES=0,0 on host-a lists GPU 0 twice",
        hosts=("host-a",),
        measured={"value": "0,0"},
    ),
    Sick(
        evidence=one_host(FOUR, visible("")),
        says="CUDA_VISIBLE_DEVICES= on host-a hides all 4 GPUs",
        hosts=("host-a",),
        measured={"value": ""},
        severity=Severity.WARN,
    ),
)
HEALTHY = (one_host(FOUR, visible("3,1")), one_host(FOUR, visible("GPU-2a1b")))
