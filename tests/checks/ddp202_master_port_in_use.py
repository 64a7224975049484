from ddpdoctor.evidence.network import Master, PortOwner
from tests.checks import Sick, one_host, ranks
from tests.checks.hosts import torchrun

STRANGER = PortOwner(pid=4711, command="python -m http.server 29500", since=1_700_000_000.0)
NOBODY_KNOWN = PortOwner(pid=None, command=None)


def master(owner: PortOwner | None) -> Master:
    return Master(addr="10.0.0.1", port=29500, addresses=("10.0.0.1",), local=True, source="10.0.0.1", owner=owner)


SICK = (
    Sick(
        evidence=one_host(master(STRANGER)),
        says="port 29500 on host-a is in use by process 4711: python -m http.server 29500 (since 2023-11-14 22:13:20 UTC)",
        hosts=("host-a",),
        measured={"port": 29500, "pid": 4711, "command": "python -m http.server 29500"},
    ),
    Sick(
        evidence=ranks(master(NOBODY_KNOWN)),
        says="port 29500 on host-a is in use by a process that is not visible: another user's, or not listening yet",
        ranks=(0,),
        hosts=("host-a",),
        measured={"port": 29500, "pid": None, "command": None},
    ),
)
HEALTHY = (
    one_host(master(None)),
    one_host(master(PortOwner(pid=1, command="torchrun", ours=True))),
    ranks((master(STRANGER), torchrun(0, 1))),
)
