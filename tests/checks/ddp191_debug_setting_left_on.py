from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables

SICK = (
    Sick(
        evidence=one_host(variables(CUDA_LAUNCH_BLOCKING="1")),
        says="CUDA_LAUNCH_BLOCKING=1 is set: every kernel launch blocks until the kernel has finished",
        measured={"variable": "CUDA_LAUNCH_BLOCKING", "value": "1"},
    ),
    Sick(
        evidence=ranks(*2 * [variables(NCCL_IB_DISABLE="1")]),
        says="NCCL_IB_DISABLE=1 is set (ranks 0-1): NCCL uses TCP instead of InfiniBand and RoCE",
        ranks=(0, 1),
        measured={"variable": "NCCL_IB_DISABLE", "value": "1"},
    ),
)
HEALTHY = (
    one_host(variables(CUDA_LAUNCH_BLOCKING="0", NCCL_IB_DISABLE="0", NCCL_DEBUG="INFO", NCCL_NVLS_ENABLE="1")),
    one_host(variables(TORCH_DISTRIBUTED_DEBUG="INFO")),
)
