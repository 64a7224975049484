from tests.checks import Sick, job
from tests.checks.matrices import matrix

SICK = (
    Sick(
        evidence=job(matrix(3, lambda a, b: "filtered")),
        says="all 3 nodes joined through MASTER_PORT, but no connection to another port succeeds (filtered)",
        ranks=(0, 1, 2),
        also=("DDP212", "DDP214"),
        hosts=("host-0", "host-1", "host-2"),
    ),
    Sick(
        evidence=job(matrix(5, lambda a, b: "filtered" if b == 2 else "ok")),
        says="host-2 can connect out, but accepts inbound connections on MASTER_PORT only (filtered)",
        ranks=(2,),
        hosts=("host-2",),
    ),
)
HEALTHY = (job(matrix(3)),)
