from ddpdoctor.evidence.limits import Limits
from ddpdoctor.evidence.network import Infiniband, InfinibandPort
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
        says="a process on host-a may lock 8192 KiB of memory, and RDMA registers its buffers by locking",
        hosts=("host-a",),
    ),
)
HEALTHY = (one_host(RDMA, Limits(locked_memory_bytes="unlimited")),)
