"""DDP107 nccl-versions-differ."""

from __future__ import annotations

from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks


def torch(loaded: str) -> TorchBuild:
    return TorchBuild(
        version="2.13.0+cu130",
        git_version="cf30153c",
        cuda="13.0",
        distributed=True,
        backends=("gloo", "nccl"),
        nccl_compiled="2.29.7",
        nccl_loaded=loaded,
        libnccl=("/opt/nccl/libnccl.so.2",),
    )


SICK = (
    Sick(
        evidence=ranks(torch("2.29.7"), torch("2.29.7"), torch("2.27.5")),
        says="NCCL is 2.29.7 on ranks 0-1, 2.27.5 on rank 2",
        ranks=(2,),
        measured={"versions": {"2.29.7": [0, 1], "2.27.5": [2]}},
    ),
    Sick(
        evidence=one_host(torch("2.27.5")),
        says="torch on host-a was built against NCCL 2.29.7 and loads 2.27.5 from /opt/nccl/libnccl.so.2",
        hosts=("host-a",),
        measured={"loaded": "2.27.5", "compiled": "2.29.7"},
        severity=Severity.WARN,
    ),
)
HEALTHY = (ranks(torch("2.29.7"), torch("2.29.7")), one_host(torch("2.29.7")))
