from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import network, variables

SICK = (
    Sick(
        evidence=one_host(network(), variables(GLOO_SOCKET_IFNAME="eth99")),
        says="GLOO_SOCKET_IFNAME=eth99 matches no interface that is up on host-a; up are lo, eth0",
        hosts=("host-a",),
    ),
    Sick(
        evidence=ranks(
            (network(1), variables(NCCL_SOCKET_IFNAME="eth")), (network(2), variables(NCCL_SOCKET_IFNAME="ib"))
        ),
        says="NCCL_SOCKET_IFNAME=ib matches no interface that is up on host-b (rank 1); up are lo, eth0",
        ranks=(1,),
        hosts=("host-b",),
    ),
)
HEALTHY = (
    one_host(network(), variables(GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="=eth0")),
    one_host(network(), variables(NCCL_SOCKET_IFNAME="^lo,docker")),
    one_host(network(), variables()),
)
