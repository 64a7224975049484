from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.network import Infiniband, InfinibandPort
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host

RDMA = Infiniband(
    ports=(
        InfinibandPort(
            device="mlx5_0", port=1, state="ACTIVE", physical_state="LinkUp", rate="400 Gb/sec", link_layer="InfiniBand"
        ),
    )
)

SICK = (
    Sick(
        evidence=one_host(RDMA, Limits(locked_memory_bytes=8 << 20)),
        says="a process on host-a may lock 8192 KiB of memory, but RDMA must lock its buffers",
        hosts=("host-a",),
        measured={"limit_bytes": 8388608},
        severity=Severity.FAIL,
    ),
)
HEALTHY = (one_host(RDMA, Limits(locked_memory_bytes="unlimited")),)
