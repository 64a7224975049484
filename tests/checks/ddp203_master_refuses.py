from tests.checks import Sick, ranks
from tests.checks.matrices import probe

SICK = (
    Sick(
        evidence=ranks(probe(), probe("refused", seconds=30.0), probe("refused", seconds=30.0)),
        says="10.0.0.1 refuses connections to port 29500 from ranks 1-2: nothing listens there",
        ranks=(1, 2),
        measured={"addr": "10.0.0.1", "port": 29500, "tried_seconds": 30.0},
    ),
    Sick(
        evidence=ranks(probe("refused"), probe("refused")),
        says="10.0.0.1 refuses connections to port 29500 from ranks 0-1: nothing listens there, and rank 0 runs on another host",
        ranks=(0, 1),
        measured={"addr": "10.0.0.1", "port": 29500, "tried_seconds": 0.0},
    ),
)
HEALTHY = (ranks(probe(), probe()),)
