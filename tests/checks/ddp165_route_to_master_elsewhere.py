from ddpdoctor.evidence.network import Master
from tests.checks import Sick, one_host
from tests.checks.hosts import eth, network, variables

SECOND = eth("ib0", "10.1.0.1/24")
AWAY = Master(addr="10.0.0.2", port=29500, addresses=("10.0.0.2",), source="10.0.0.1")


SICK = (
    Sick(
        evidence=one_host(network(1, SECOND), AWAY, variables(GLOO_SOCKET_IFNAME="ib0")),
        says="host-a reaches MASTER_ADDR=10.0.0.2 through eth0 (10.0.0.1), but GLOO_SOCKET_IFNAME=ib0 selects another interface",
        hosts=("host-a",),
        measured={"route": "eth0", "chosen": ["ib0"]},
    ),
)
HEALTHY = (one_host(network(1, SECOND), AWAY, variables(GLOO_SOCKET_IFNAME="eth0")),)
