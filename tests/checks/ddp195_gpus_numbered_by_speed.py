"""DDP195 gpus-numbered-by-speed."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from tests.checks import Sick, one_host
from tests.checks.hosts import variables


def gpus(*names: str) -> Gpus:
    return Gpus(driver="580.65.06", gpus=tuple(Gpu(index=index, name=name) for index, name in enumerate(names)))


MIXED = gpus("NVIDIA T4", "NVIDIA A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB")

SICK = (
    Sick(
        evidence=one_host(MIXED, variables()),
        says="host-a has 1 NVIDIA T4 and 2 NVIDIA A100-PCIE-40GB, and CUDA_DEVICE_ORDER is not set: "
        "CUDA numbers the fastest GPU first, nvidia-smi numbers by PCI bus",
        hosts=("host-a",),
        measured={"models": {"NVIDIA T4": 1, "NVIDIA A100-PCIE-40GB": 2}},
    ),
    Sick(
        evidence=one_host(MIXED, variables(CUDA_DEVICE_ORDER="FASTEST_FIRST", CUDA_VISIBLE_DEVICES="0,1")),
        says="host-a has 1 NVIDIA T4 and 2 NVIDIA A100-PCIE-40GB, and CUDA_DEVICE_ORDER is FASTEST_FIRST: "
        "CUDA numbers the fastest GPU first, nvidia-smi numbers by PCI bus",
        hosts=("host-a",),
        measured={"models": {"NVIDIA T4": 1, "NVIDIA A100-PCIE-40GB": 2}},
    ),
)
HEALTHY = (
    one_host(MIXED, variables(CUDA_DEVICE_ORDER="PCI_BUS_ID")),
    one_host(gpus("NVIDIA H200", "NVIDIA H200"), variables()),
)
