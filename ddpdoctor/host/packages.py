"""The interpreter, and the distributions whose versions or coexistence decide whether torch works."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from ddpdoctor.evidence.host import PythonInstall
from ddpdoctor.host.host_access import HostAccess

DISTRIBUTIONS = (
    "torch",
    "numpy",
    "nvidia-nccl-cu11",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "nvidia-ml-py",
    "nvidia-ml-py3",
    "pynvml",
    "torch-xla",
    "lightning",
    "accelerate",
    "deepspeed",
    "transformers",
)


def collect(_world: HostAccess) -> list[PythonInstall]:
    """One `PythonInstall`: of this interpreter, which is the one that a job started with the same `python` gets."""
    return [
        PythonInstall(
            version=platform.python_version(),
            executable=sys.executable,
            packages={name: version for name in DISTRIBUTIONS if (version := _version(name)) is not None},
        )
    ]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
