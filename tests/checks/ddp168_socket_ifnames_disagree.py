from tests.checks import Sick, one_host
from tests.checks.hosts import eth, network, variables

SECOND = eth("ib0", "10.1.0.1/24")

SICK = (
    Sick(
        evidence=one_host(network(1, SECOND), variables(GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="ib")),
        says="on host-a gloo uses eth0 (GLOO_SOCKET_IFNAME=eth0) and NCCL uses ib0 (NCCL_SOCKET_IFNAME=ib)",
        hosts=("host-a",),
        measured={"gloo": ["eth0"], "nccl": ["ib0"]},
    ),
)
HEALTHY = (one_host(network(1, SECOND), variables(GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="eth,ib")),)
