from tests.checks import Sick, ranks
from tests.checks.hosts import eth, network, variables

DOCKER = eth("docker0", "172.17.0.1/16", virtual=True)
OTHER_DOCKER = eth("docker0", "172.18.0.1/16", virtual=True)

SICK = (
    Sick(
        evidence=ranks(
            (network(1), variables(GLOO_SOCKET_IFNAME="eth0")), (network(2), variables(GLOO_SOCKET_IFNAME="lo"))
        ),
        says="GLOO_SOCKET_IFNAME=lo on host-b selects lo, which does not reach other hosts",
        ranks=(1,),
        hosts=("host-b",),
        measured={"variable": "GLOO_SOCKET_IFNAME", "value": "lo"},
    ),
    Sick(
        evidence=ranks(
            (network(1, DOCKER), variables(NCCL_SOCKET_IFNAME="eth0")),
            (network(2, OTHER_DOCKER), variables(NCCL_SOCKET_IFNAME="docker")),
        ),
        says="NCCL_SOCKET_IFNAME=docker on host-b selects docker0, which does not reach other hosts",
        ranks=(1,),
        hosts=("host-b",),
        measured={"variable": "NCCL_SOCKET_IFNAME", "value": "docker"},
    ),
)
HEALTHY = (
    ranks((network(1), variables(GLOO_SOCKET_IFNAME="eth0")), (network(2), variables(GLOO_SOCKET_IFNAME="eth0"))),
)
