from tests.checks import Sick, job
from tests.checks.matrices import matrix

SICK = (
    Sick(
        evidence=job(matrix(3, lambda a, b: "filtered" if (a, b) == (0, 2) else "ok")),
        says="host-0 to host-2: filtered in this direction only (10.0.0.3:40000: no answer in time)",
        ranks=(0, 2),
        hosts=("host-0", "host-2"),
    ),
    Sick(
        evidence=job(matrix(5, lambda a, b: "refused" if {a, b} == {1, 3} else "ok")),
        says="host-1 and host-3: refused in both directions (10.0.0.4:40000: no answer in time)",
        ranks=(1, 3),
    ),
    Sick(
        evidence=job(matrix(6, lambda a, b: "filtered" if (a < 2) != (b < 2) else "ok")),
        says="nothing gets through between host-0, host-1 and host-2, host-3, host-4, host-5, and each side talks within itself",
        ranks=(0, 1, 2, 3, 4, 5),
    ),
)
HEALTHY = (job(matrix(2)), job(matrix(5)))
