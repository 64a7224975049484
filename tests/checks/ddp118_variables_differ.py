"""DDP118 variables-differ."""

from __future__ import annotations

from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Severity
from tests.checks import Sick, ranks


def environment(**variables: str) -> Environment:
    return Environment(variables=variables)


SICK = (
    Sick(
        evidence=ranks(environment(), environment(NCCL_NET="Socket"), environment()),
        says="NCCL_NET is unset on ranks 0,2, Socket on rank 1",
        ranks=(1,),
        measured={"variable": "NCCL_NET", "values": {"unset": [0, 2], "Socket": [1]}},
    ),
    Sick(
        evidence=ranks(environment(OMP_NUM_THREADS="1"), environment(OMP_NUM_THREADS="8")),
        says="OMP_NUM_THREADS is 1 on rank 0, 8 on rank 1; no majority: either side may be at fault",
        ranks=(0, 1),
        measured={"variable": "OMP_NUM_THREADS", "values": {"1": [0], "8": [1]}},
        severity=Severity.WARN,
    ),
)
HEALTHY = (
    ranks(
        environment(NCCL_DEBUG_FILE="/tmp/nccl.0", CUDA_VISIBLE_DEVICES="0", NCCL_SOCKET_IFNAME="eth0"),
        environment(NCCL_DEBUG_FILE="/tmp/nccl.1", CUDA_VISIBLE_DEVICES="1", NCCL_SOCKET_IFNAME="ens3"),
    ),
)
