from tests.checks import Sick, job
from tests.checks.matrices import matrix

SICK = (
    Sick(
        evidence=job(matrix(5, lambda a, b: "large-stalls" if 1 in (a, b) else "ok")),
        says="host-1: 64 bytes pass, but large messages stall (10.0.0.2:40000: no answer in time)",
        ranks=(1,),
        hosts=("host-1",),
    ),
    Sick(
        evidence=job(matrix(3, lambda a, b: "large-stalls" if {a, b} == {0, 1} else "ok")),
        says="host-0 and host-1: 64 bytes pass, but large messages stall (10.0.0.2:40000: no answer in time)",
        ranks=(0, 1),
        hosts=("host-0", "host-1"),
    ),
)
HEALTHY = (job(matrix(3)),)
