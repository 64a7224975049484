from tests.checks import Sick, job
from tests.checks.matrices import matrix

SICK = (
    Sick(
        evidence=job(matrix(5, lambda a, b: "unreachable" if 3 in (a, b) else "ok")),
        says="host-3 (10.0.0.4): 8 of 8 directions to and from it fail (unreachable)",
        ranks=(3,),
        hosts=("host-3",),
        measured={"failed": 8, "tried": 8},
    ),
    Sick(
        evidence=job(matrix(3, lost=(1,))),
        says="host-1 joined, then stopped responding during the test rounds",
        ranks=(1,),
        hosts=("host-1",),
    ),
)
HEALTHY = (job(matrix(3)),)
