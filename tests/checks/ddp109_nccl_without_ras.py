"""DDP109 nccl-without-ras."""

from __future__ import annotations

from ddpdoctor.evidence.torch_build import TorchBuild
from tests.checks import Sick, one_host


def torch(nccl: str) -> TorchBuild:
    return TorchBuild(
        version="2.4.1", cuda="12.1", distributed=True, backends=("gloo", "nccl"), nccl_compiled=nccl, nccl_loaded=nccl
    )


SICK = (
    Sick(
        evidence=one_host(torch("2.20.5")),
        says="NCCL 2.20.5 on host-a is older than 2.24 and has no RAS service",
        hosts=("host-a",),
        measured={"loaded": "2.20.5"},
    ),
)
HEALTHY = (one_host(torch("2.24.3")), one_host(torch("2.29.7")))
