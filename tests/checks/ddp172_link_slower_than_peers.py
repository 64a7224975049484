from ddpdoctor.evidence.network import Interface, Network
from tests.checks import Sick, ranks
from tests.checks.hosts import LO


def host(number: int, mbit: int, duplex: str = "full") -> Network:
    address = f"10.0.0.{number}"
    link = Interface(name="eth0", up=True, addresses=(f"{address}/24",), speed_mbit=mbit, duplex=duplex)
    return Network(hostname=f"host-{number}", hostname_addresses=(address,), interfaces=(LO, link))


SICK = (
    Sick(
        evidence=ranks(host(1, 10000), host(2, 1000), host(3, 10000)),
        says="eth0 of host-b runs at 1000 Mbit/s; 2 other hosts run at 10000 Mbit/s",
        hosts=("host-b",),
        measured={"speed_mbit": 1000, "usual_mbit": 10000},
    ),
    Sick(
        evidence=ranks(host(1, 100), host(2, 100, "half")),
        says="eth0 of host-b runs at half duplex",
        hosts=("host-b",),
        measured={"duplex": "half"},
    ),
)
HEALTHY = (ranks(host(1, 10000), host(2, 10000)),)
