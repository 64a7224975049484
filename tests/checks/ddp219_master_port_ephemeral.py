from ddpdoctor.evidence.network import Master
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import network, torchrun

RANGE = {"ephemeral_ports": (32768, 60999)}


def master(port: int) -> Master:
    return Master(addr="10.0.0.1", port=port, addresses=("10.0.0.1",), local=True, source="10.0.0.1")


SICK = (
    Sick(
        evidence=one_host(master(40000), network(**RANGE)),
        says="MASTER_PORT=40000 lies in the ephemeral range 32768-60999 of host-a",
        hosts=("host-a",),
        measured={"port": 40000, "low": 32768, "high": 60999},
    ),
)
HEALTHY = (
    one_host(master(29500), network(**RANGE)),
    one_host(master(40000), network(**RANGE, reserved_ports=((40000, 40000),))),
    ranks((master(40000), network(**RANGE), torchrun(0, 1))),
)
