from tests.checks import Sick, ranks
from tests.checks.matrices import probe

SICK = (
    Sick(
        evidence=ranks(probe(), probe("filtered")),
        says="10.0.0.1 port 29500 does not answer when rank 1 connects",
        ranks=(1,),
        measured={"addr": "10.0.0.1", "port": 29500, "tried_seconds": 0.0},
    ),
    Sick(
        evidence=ranks(
            probe(), probe("unreachable", detail="no route to host"), probe("unreachable", detail="no route to host")
        ),
        says="10.0.0.1 port 29500 is unreachable (no route to host) when ranks 1-2 connect",
        ranks=(1, 2),
        measured={"addr": "10.0.0.1", "port": 29500, "tried_seconds": 0.0},
    ),
)
HEALTHY = (ranks(probe(), probe()),)
