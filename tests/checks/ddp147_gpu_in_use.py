"""DDP147 gpu-in-use."""

from __future__ import annotations

from ddpdoctor.evidence.gpus import Gpu, GpuProcess, Gpus
from tests.checks import Sick, one_host


def gpus(*each: Gpu) -> Gpus:
    return Gpus(driver="580.65.06", cuda_driver="13.0", gpus=each)


def used_by(command: str | None) -> Gpus:
    process = GpuProcess(pid=4711, memory_bytes=3 * 2**30, command=command)
    return gpus(Gpu(index=0, processes=(process,), memory_used_bytes=3 * 2**30))


SICK = (
    Sick(
        evidence=one_host(used_by("python train.py")),
        says="GPU 0 of host-a is in use by pid 4711 (python train.py) with 3.0 GiB",
        hosts=("host-a",),
        also=("DDP148",),
        measured={"gpu": 0, "pids": [4711]},
    ),
)
HEALTHY = (one_host(gpus(Gpu(index=0, processes=(), memory_used_bytes=0))),)
