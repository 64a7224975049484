"""DDP115 conflicting-packages."""

from __future__ import annotations

from ddpdoctor.evidence.host import PythonInstall
from tests.checks import Sick, one_host


def python(**packages: str) -> PythonInstall:
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return PythonInstall(version="3.11.7", executable="/opt/venv/bin/python", packages=named)


SICK = (
    Sick(
        evidence=one_host(python(pynvml="11.5.0", nvidia_ml_py="12.560.30")),
        says="host-a has pynvml 11.5.0 and nvidia-ml-py 12.560.30: both provide the module pynvml",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(python(nvidia_nccl_cu12="2.27.5", nvidia_nccl_cu13="2.29.7")),
        says="host-a has nvidia-nccl-cu12 2.27.5 and nvidia-nccl-cu13 2.29.7: both provide nvidia/nccl/lib/libnccl.so.2",
        hosts=("host-a",),
    ),
)
HEALTHY = (
    one_host(python(pynvml="12.0.0", nvidia_ml_py="12.560.30")),
    one_host(python(nvidia_nccl_cu13="2.29.7", torch="2.13.0")),
)
