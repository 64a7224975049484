"""Gloo's greater address dials: 10.0.0.x lets 127.0.1.1 dial, 192.168.0.x dials it and ends up at itself."""

from ddpdoctor.evidence.network import Network
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Severity
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import LO, eth, network, variables


def high(number: int, *resolves_to: str) -> Network:
    """A host of 192.168.0.0/24."""
    return Network(
        hostname=f"host-{chr(ord('a') + number - 1)}",
        hostname_addresses=resolves_to,
        interfaces=(LO, eth(address=f"192.168.0.{number}/24")),
    )


HEALTHY_HIGH = high(1, "192.168.0.1"), high(3, "192.168.0.3")
GPUS = TorchBuild(cuda_devices=8)

SICK = (
    Sick(
        evidence=ranks(HEALTHY_HIGH[0], high(2, "127.0.1.1"), HEALTHY_HIGH[1]),
        says="host-b resolves to 127.0.1.1, which gloo advertises to its peers: they cannot reach it",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.FAIL,
        measured={"address": "127.0.1.1"},
    ),
    Sick(
        evidence=ranks(HEALTHY_HIGH[0], high(2), HEALTHY_HIGH[1]),
        says="host-b resolves to nothing; gloo falls back to 127.0.0.1, which gloo advertises to its peers: they cannot reach it",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.FAIL,
        measured={"address": "127.0.0.1"},
    ),
    Sick(
        evidence=ranks(HEALTHY_HIGH[0], high(2, "192.168.0.77"), HEALTHY_HIGH[1]),
        says="host-b resolves to 192.168.0.77, which the host does not have; gloo falls back to 127.0.0.1, which gloo "
        "advertises to its peers: they cannot reach it",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.FAIL,
        measured={"address": "127.0.0.1"},
    ),
    Sick(
        evidence=ranks((HEALTHY_HIGH[0], GPUS), (high(2, "127.0.1.1"), GPUS), (HEALTHY_HIGH[1], GPUS)),
        says="host-b resolves to 127.0.1.1, which gloo advertises to its peers: they cannot reach it; NCCL does not "
        "need it, but a gloo group fails",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.WARN,
        measured={"address": "127.0.1.1"},
    ),
    Sick(
        evidence=ranks(network(1), network(2, resolves_to="127.0.1.1"), network(3)),
        says="host-b resolves to 127.0.1.1, which gloo advertises to its peers: this host connects to its peers, whose "
        "addresses are lower; a peer with a higher address cannot reach it",
        ranks=(1,),
        hosts=("host-b",),
        severity=Severity.WARN,
        measured={"address": "127.0.1.1"},
    ),
    Sick(
        evidence=one_host(network(1, resolves_to="127.0.1.1")),
        says="host-a resolves to 127.0.1.1, which gloo advertises to its peers: harmless on one host, fatal on several",
        hosts=("host-a",),
        severity=Severity.WARN,
        measured={"address": "127.0.1.1"},
    ),
    Sick(
        evidence=ranks(network(1, resolves_to="127.0.0.1"), network(1, resolves_to="127.0.0.1"), per_host=2),
        says="host-a resolves to 127.0.0.1, which gloo advertises to its peers: harmless on one host, fatal on several",
        hosts=("host-a",),
        severity=Severity.INFO,
        measured={"address": "127.0.0.1"},
    ),
)
HEALTHY = (
    one_host(network()),
    ranks(*HEALTHY_HIGH),
    ranks(HEALTHY_HIGH[0], high(2, "192.168.0.77", "192.168.0.2")),  # gloo takes the first that it can bind
    ranks(
        (network(1), variables(GLOO_SOCKET_IFNAME="eth0")),
        (network(2, resolves_to="127.0.1.1"), variables(GLOO_SOCKET_IFNAME="eth0")),
    ),
)
