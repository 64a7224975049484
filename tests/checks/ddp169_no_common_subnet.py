from ddpdoctor.evidence.network import Network
from tests.checks import Sick, ranks
from tests.checks.hosts import LO, eth, network


def host(name: str, *addresses: str) -> Network:
    interfaces = (LO, *(eth(f"eth{index}", address) for index, address in enumerate(addresses)))
    return Network(hostname=name, hostname_addresses=(addresses[0].partition("/")[0],), interfaces=interfaces)


SICK = (
    Sick(
        evidence=ranks(host("host-a", "10.0.0.1/24", "10.5.0.1/24"), host("host-b", "10.1.0.1/24")),
        says="no subnet is common to the 2 hosts",
        hosts=("host-a", "host-b"),
    ),
)
HEALTHY = (
    ranks(network(1), network(2)),
    ranks(host("host-a", "10.0.0.1/24"), host("host-b", "10.1.0.1/24")),
)
