from tests.checks import Sick, job
from tests.checks.matrices import matrix

SICK = (
    Sick(
        evidence=job(matrix(3, lambda a, b: "filtered")),
        says="all 3 nodes met through MASTER_PORT, and no connection to another port gets through (filtered)",
        ranks=(0, 1, 2),
        also=("DDP212", "DDP214"),
    ),
    Sick(
        evidence=job(matrix(5, lambda a, b: "filtered" if b == 2 else "ok")),
        says="host-2 reaches the others and admits nobody on ports other than MASTER_PORT (filtered)",
        ranks=(2,),
    ),
)
HEALTHY = (job(matrix(3)),)
