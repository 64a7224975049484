from ddpdoctor.evidence.network import Network
from tests.checks import Sick, one_host
from tests.checks.hosts import LO, eth


def host(errors: int, packets: int = 1_000_000) -> Network:
    link = eth(errors=errors, packets=packets)
    return Network(hostname="host-a", hostname_addresses=("10.0.0.1",), interfaces=(LO, link))


SICK = (
    Sick(
        evidence=one_host(host(4321)),
        says="eth0 of host-a counted 4321 errors in 1000000 packets",
        hosts=("host-a",),
        measured={"errors": 4321, "packets": 1000000},
    ),
)
HEALTHY = (one_host(host(0)), one_host(host(7)), one_host(host(3, packets=50)))
