"""DDP105 driver-too-old-for-cuda."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host

TORCH = TorchBuild(version="2.13.0+cu130", cuda="13.0", distributed=True, backends=("gloo", "nccl"))
SICK = (
    Sick(
        evidence=one_host(TORCH, Gpus(driver="550.54.15", cuda_driver="12.4")),
        says="the driver on host-a is 550.54.15; CUDA 13.0 of torch 2.13.0+cu130 needs 580 or newer",
        hosts=("host-a",),
        measured={"driver": "550.54.15", "needed": 580},
    ),
)
HEALTHY = (one_host(TORCH, Gpus(driver="580.65.06", cuda_driver="13.0")),)
