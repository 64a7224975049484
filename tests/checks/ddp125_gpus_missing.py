"""DDP125 gpus-missing."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, Gpus
from ddpdoctor.evidence.host import Environment, Host
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host, ranks


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


TORCH = TorchBuild(version="2.13.0+cu130", cuda="13.0", distributed=True, backends=("gloo", "nccl"), cuda_devices=2)
SICK = (
    Sick(
        evidence=one_host(gpus(Gpu(index=0), Gpu(index=1, unread={"handle": "GPU is lost"}))),
        says="GPU 1 of host-a does not answer: GPU is lost",
        hosts=("host-a",),
        measured={"usable": 1},
    ),
    Sick(
        evidence=one_host(gpus(Gpu(index=0)), Host(nvidia_devices=("/dev/nvidia0", "/dev/nvidia1")), TORCH),
        says="NVML on host-a sees 1 of the 2 GPUs that have a device file",
        hosts=("host-a",),
        measured={"usable": 1},
    ),
    Sick(
        evidence=ranks(
            *(
                (
                    gpus(Gpu(index=0), Gpu(index=1)),
                    Host(),
                    TORCH,
                    Launch(launcher="torchrun", rank=rank, world_size=4, local_rank=rank, local_world_size=4),
                )
                for rank in range(4)
            ),
            per_host=4,
        ),
        says="host-a has 2 of the 4 GPUs that its ranks need",
        ranks=(0, 1, 2, 3),
        hosts=("host-a",),
        measured={"usable": 2},
    ),
)
SLURM = Environment(variables={"SLURM_JOB_ID": "77"})
HEALTHY = (
    one_host(gpus(Gpu(index=0)), Host(nvidia_devices=("/dev/nvidia0", "/dev/nvidia1")), TORCH, SLURM),
    one_host(gpus(Gpu(index=0), Gpu(index=1)), Host(nvidia_devices=("/dev/nvidia0", "/dev/nvidia1")), TORCH),
)
