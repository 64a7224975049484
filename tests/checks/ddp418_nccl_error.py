"""NCCL's own words, decoded; a peer's end is not one of its errors."""

from tests.checks import Sick
from tests.endings import FINE, LOST_PEER, ended, raised

SYSTEM = "NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\nncclSystemError: System call failed"

SICK = (
    Sick(
        evidence=ended(LOST_PEER, raised(SYSTEM, "DistBackendError")),
        says="a system call inside NCCL failed: a socket, shared memory, or a device file on rank 1",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(
            raised(SYSTEM, "DistBackendError", tail=("node1:77 [0] NCCL WARN Bootstrap : no socket interface found",))
        ),
        says="NCCL found no network interface on rank 0",
        ranks=(0,),
    ),
)
HEALTHY = (ended(FINE, FINE),)
