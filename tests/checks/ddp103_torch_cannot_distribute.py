"""DDP103 torch-cannot-distribute."""

from __future__ import annotations

from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host

ABSENT = "ModuleNotFoundError: No module named 'torch'"
SICK = (
    Sick(
        evidence=one_host(TorchBuild(import_error=ABSENT, not_installed_for="/opt/venv/bin/python")),
        says="on host-a torch is not installed for /opt/venv/bin/python",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(TorchBuild(import_error="ImportError: libcudart.so.13: cannot open shared object file")),
        says="on host-a `import torch` fails: ImportError: libcudart.so.13: cannot open shared object file",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(TorchBuild(version="2.13.0", distributed=False)),
        says="on host-a torch 2.13.0 was built without torch.distributed",
        hosts=("host-a",),
    ),
    Sick(
        evidence=one_host(TorchBuild(version="2.13.0", cuda="13.0", distributed=True, backends=("gloo",))),
        says="on host-a torch 2.13.0 for CUDA 13.0 was built without NCCL",
        hosts=("host-a",),
    ),
)
HEALTHY = (
    one_host(TorchBuild(version="2.13.0+cpu", distributed=True, backends=("gloo",))),
    one_host(TorchBuild(version="2.13.0", cuda="13.0", distributed=True, backends=("gloo", "nccl"))),
)
