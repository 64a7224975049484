"""DDP224 slurm-step-without-gpus."""

from __future__ import annotations

from ddpdoctor.evidence.host import Host
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, ranks
from tests.checks.hosts import variables

MACHINE = Host(nvidia_devices=("/dev/nvidia0", "/dev/nvidia1"))
BLIND = TorchBuild(
    version="2.13.0+cu130",
    cuda="13.0",
    distributed=True,
    backends=("gloo", "nccl"),
    nccl_compiled="2.28.9",
    cuda_devices=0,
)
STEP = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}

SICK = (
    Sick(
        evidence=ranks((MACHINE, BLIND, variables(**STEP))),
        says="Slurm step 0 has no GPU on host-a, which has 2: SLURM_STEP_GPUS is not set",
        ranks=(0,),
        hosts=("host-a",),
        measured={"devices": 2},
    ),
)
HEALTHY = (
    ranks((MACHINE, BLIND, variables(**STEP, SLURM_STEP_GPUS="0,1"))),  # given, and broken in another way
    ranks((MACHINE, BLIND, variables(**STEP, CUDA_VISIBLE_DEVICES="-1"))),  # hidden on purpose
    ranks((Host(), BLIND, variables(**STEP))),  # a node without GPUs
)
