from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import network, variables

SICK = (
    Sick(
        evidence=one_host(network(), variables(GLOO_SOCKET_IFNAME="eth99")),
        says="GLOO_SOCKET_IFNAME=eth99 matches no interface that is up on host-a; interfaces that are up: lo, eth0",
        hosts=("host-a",),
        measured={"variable": "GLOO_SOCKET_IFNAME", "value": "eth99", "up": ["lo", "eth0"]},
    ),
    Sick(
        evidence=ranks(
            (network(1), variables(NCCL_SOCKET_IFNAME="eth")), (network(2), variables(NCCL_SOCKET_IFNAME="ib"))
        ),
        says="NCCL_SOCKET_IFNAME=ib matches no interface that is up on host-b (rank 1); interfaces that are up: lo, eth0",
        ranks=(1,),
        hosts=("host-b",),
        measured={"variable": "NCCL_SOCKET_IFNAME", "value": "ib", "up": ["lo", "eth0"]},
    ),
)
HEALTHY = (
    one_host(network(), variables(GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="=eth0")),
    one_host(network(), variables(NCCL_SOCKET_IFNAME="^lo,docker")),
    one_host(network(), variables()),
)
