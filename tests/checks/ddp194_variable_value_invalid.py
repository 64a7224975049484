from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import variables

SICK = (
    Sick(
        evidence=one_host(variables(TORCH_DISTRIBUTED_DEBUG="VERBOSE")),
        says="TORCH_DISTRIBUTED_DEBUG='VERBOSE' is set; accepted: OFF, INFO or DETAIL",
        measured={"variable": "TORCH_DISTRIBUTED_DEBUG", "value": "VERBOSE"},
    ),
    Sick(
        evidence=ranks(variables(OMP_NUM_THREADS="$(nproc)"), variables(OMP_NUM_THREADS="$(nproc)")),
        says="OMP_NUM_THREADS='$(nproc)' is set (ranks 0-1); accepted: a number from 1",
        ranks=(0, 1),
        measured={"variable": "OMP_NUM_THREADS", "value": "$(nproc)"},
    ),
    Sick(
        evidence=one_host(variables(NCCL_SOCKET_NTHREADS="16", NCCL_NSOCKS_PERTHREAD="8")),
        says="NCCL_SOCKET_NTHREADS=16 times NCCL_NSOCKS_PERTHREAD=8 is 128 sockets on host-a; NCCL allows at most 64",
        hosts=("host-a",),
        measured={"sockets": 128},
    ),
)
HEALTHY = (
    one_host(variables(TORCH_DISTRIBUTED_DEBUG="info", OMP_NUM_THREADS="4,2", MASTER_PORT="29500", NCCL_DEBUG="warn")),
    one_host(variables(NCCL_SOCKET_NTHREADS="8", NCCL_NSOCKS_PERTHREAD="8")),
)
