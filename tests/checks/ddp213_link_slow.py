from tests.checks import Sick, job
from tests.checks.matrices import HEALTHY_BYTES_PER_SECOND, matrix

TENTH = HEALTHY_BYTES_PER_SECOND / 10


def slow(nodes: int, where) -> object:
    return job(matrix(nodes, speed=lambda a, b: TENTH if where(a, b) else HEALTHY_BYTES_PER_SECOND))


SICK = (
    Sick(  # four of the six directions of three nodes are slow: the median of all of them would be slow too
        evidence=slow(3, lambda a, b: 1 in (a, b)),
        says="host-1 has 1000 Mbit/s, 10% of the job's median of 10000",
        ranks=(1,),
    ),
    Sick(
        evidence=job(matrix(4, latency=lambda a, b: 5e-3 if 3 in (a, b) else 50e-6)),
        says="host-3 has 5 ms latency, 100 times the job's median of 0.05",
        ranks=(3,),
        hosts=("host-3",),
    ),
    Sick(
        evidence=slow(5, lambda a, b: 2 in (a, b)),
        says="host-2 has 1000 Mbit/s, 10% of the job's median of 10000",
        ranks=(2,),
        hosts=("host-2",),
    ),
    Sick(
        evidence=slow(5, lambda a, b: a == 2),
        says="host-2 has outbound 1000 Mbit/s, 10% of the job's median of 10000",
        ranks=(2,),
    ),
    Sick(
        evidence=slow(5, lambda a, b: {a, b} == {0, 4}),
        says="host-0 and host-4 have 1000 Mbit/s, 10% of the job's median of 10000",
        ranks=(0, 4),
    ),
    Sick(
        evidence=job(matrix(3, speed=lambda a, b: TENTH, speed_mbit=10_000)),
        says="the median stream has 1000 Mbit/s, and the interfaces state 10000",
    ),
)
HEALTHY = (
    job(matrix(3)),
    job(matrix(3, speed=lambda a, b: 2.3e9 if (a, b) == (0, 2) else 6e9)),  # a busy processor halts one stream
    job(matrix(4, latency=lambda a, b: 1.5e-3 if 3 in (a, b) else 50e-6)),
    job(matrix(4, latency=lambda a, b: 5e-3 if 3 in (a, b) else 1e-3)),
    job(matrix(4, speed=lambda a, b: HEALTHY_BYTES_PER_SECOND / (1 + (a + b) % 2))),
    job(matrix(3, speed=lambda a, b: TENTH, speed_mbit=100_000)),
)
