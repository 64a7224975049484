"""DDP104 cpu-only-torch-on-gpu-host."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.evidence.host import Environment, Host
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host

CPU = TorchBuild(version="2.13.0+cpu", distributed=True, backends=("gloo",))
CUDA = TorchBuild(version="2.13.0+cu130", cuda="13.0", distributed=True, backends=("gloo", "nccl"))
SICK = (
    Sick(
        evidence=one_host(CPU, Host(nvidia_devices=("/dev/nvidia0", "/dev/nvidia1"))),
        says="torch 2.13.0+cpu on host-a has no CUDA, but the host has 2 GPUs",
        hosts=("host-a",),
        measured={"gpus": 2},
    ),
)
NONE_ALLOTTED = Gpus(driver="580.65.06")
SLURM = Environment(variables={"SLURM_JOB_ID": "77"})
HEALTHY = (
    one_host(CPU, Host()),
    one_host(CPU, Host(nvidia_devices=("/dev/nvidia0",)), NONE_ALLOTTED, SLURM),
    one_host(CUDA, Host(nvidia_devices=("/dev/nvidia0",))),
)
