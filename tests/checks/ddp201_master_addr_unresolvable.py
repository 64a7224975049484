from ddpdoctor.evidence.network import Master
from tests.checks import Sick, one_host, ranks

KNOWN = Master(addr="node0", port=29500, addresses=("10.0.0.1",), source="10.0.0.2")
UNKNOWN = Master(addr="no-such-host", port=29500, error="Name or service not known")
ELSEWHERE = Master(addr="node0", port=29500, addresses=("10.9.9.9",), source="10.0.0.4")

SICK = (
    Sick(
        evidence=one_host(UNKNOWN),
        says="this host cannot resolve MASTER_ADDR=no-such-host: Name or service not known",
        measured={"addr": "no-such-host", "error": "Name or service not known"},
    ),
    Sick(
        evidence=ranks(KNOWN, KNOWN, UNKNOWN, UNKNOWN),
        says="ranks 2-3 cannot resolve MASTER_ADDR=no-such-host: Name or service not known",
        ranks=(2, 3),
        measured={"addr": "no-such-host", "error": "Name or service not known"},
    ),
    Sick(
        evidence=ranks(KNOWN, KNOWN, ELSEWHERE),
        says="MASTER_ADDR=node0 resolves differently: 10.0.0.1 on ranks 0-1; 10.9.9.9 on rank 2",
        ranks=(2,),
        measured={"addr": "node0"},
    ),
)
HEALTHY = (ranks(KNOWN, KNOWN), one_host(KNOWN))
