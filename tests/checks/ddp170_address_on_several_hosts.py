from ddpdoctor.model import Severity
from tests.checks import Sick, ranks
from tests.checks.hosts import eth, network, variables

BRIDGE = eth("br-1a2b", "172.18.0.1/16", virtual=True)
DOCKER = eth("docker0", "172.17.0.1/16", virtual=True)

SICK = (
    Sick(
        evidence=ranks(network(1, BRIDGE), network(2, BRIDGE)),
        says="host-a, host-b all have 172.18.0.1 on br-1a2b, and NCCL would use it",
        hosts=("host-a", "host-b"),
        severity=Severity.WARN,
        measured={"address": "172.18.0.1"},
    ),
    Sick(
        evidence=ranks(
            network(1, DOCKER, resolves_to="172.17.0.1"),
            network(2, DOCKER, resolves_to="172.17.0.1"),
            network(3, DOCKER),
        ),
        says="host-a, host-b all have 172.17.0.1 on docker0, and gloo would use it",
        hosts=("host-a", "host-b"),
        severity=Severity.FAIL,
        measured={"address": "172.17.0.1"},
    ),
)
OFF = variables(NCCL_SOCKET_IFNAME="^docker,lo,br-")
HEALTHY = (
    ranks(network(1, DOCKER), network(2, DOCKER)),
    ranks((network(1, BRIDGE), OFF), (network(2, BRIDGE), OFF)),
)
