from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import network, variables

SICK = (
    Sick(
        evidence=ranks(network(1), network(2, resolves_to="127.0.1.1"), network(3)),
        says="host-b resolves to 127.0.1.1, which gloo gives to its peers: its peers cannot reach that",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.FAIL,
    ),
    Sick(
        evidence=one_host(network(1, resolves_to="127.0.1.1")),
        says="host-a resolves to 127.0.1.1, which gloo gives to its peers: harmless on one host, fatal on several",
        hosts=("host-a",),
        severity=Severity.WARN,
    ),
    Sick(
        evidence=ranks(network(1, resolves_to="127.0.0.1"), network(1, resolves_to="127.0.0.1"), per_host=2),
        says="host-a resolves to 127.0.0.1, which gloo gives to its peers: harmless on one host, fatal on several",
        hosts=("host-a",),
        severity=Severity.INFO,
    ),
)
HEALTHY = (
    one_host(network()),
    ranks(
        (network(1), variables(GLOO_SOCKET_IFNAME="eth0")),
        (network(2, resolves_to="127.0.1.1"), variables(GLOO_SOCKET_IFNAME="eth0")),
    ),
)
