from ddpdoctor.evidence.network import Master
from tests.checks import Sick, ranks
from tests.checks.hosts import torchrun


def master(name: str, *addresses: str) -> Master:
    return Master(addr=name, port=29500, addresses=addresses, source=addresses[0])


HERE = master("localhost", "::1", "127.0.0.1")
THERE = master("host-a", "10.0.0.1")

SICK = (
    Sick(
        evidence=ranks((HERE, torchrun(0, 2)), (HERE, torchrun(1, 2))),
        says="MASTER_ADDR=localhost is loopback on ranks 0-1, but the job has several nodes",
        ranks=(0, 1),
        measured={"addr": "localhost"},
    ),
)
HEALTHY = (ranks((THERE, torchrun(0, 2)), (THERE, torchrun(1, 2))),)
