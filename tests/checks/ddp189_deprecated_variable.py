from ddpdoctor.evidence.variables import KnownNames
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables

TORCH = KnownNames(read=("libtorch_cpu.so",), renamed={"NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING"})
OLD = variables(NCCL_ASYNC_ERROR_HANDLING="1")

SICK = (
    Sick(
        evidence=one_host(OLD, TORCH),
        says="NCCL_ASYNC_ERROR_HANDLING is set but deprecated: its new name is TORCH_NCCL_ASYNC_ERROR_HANDLING",
        measured={"old": "NCCL_ASYNC_ERROR_HANDLING", "new": "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
    ),
    Sick(
        evidence=ranks(*2 * [(variables(NCCL_MAX_NCHANNELS="4"), TORCH)]),
        says="NCCL_MAX_NCHANNELS is set (ranks 0-1) but deprecated: its new name is NCCL_MAX_CTAS",
        ranks=(0, 1),
        measured={"old": "NCCL_MAX_NCHANNELS", "new": "NCCL_MAX_CTAS"},
    ),
)
HEALTHY = (one_host(variables(TORCH_NCCL_ASYNC_ERROR_HANDLING="1", NCCL_MAX_CTAS="4"), TORCH),)
