from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming
from tests.checks import Sick, job
from tests.checks.matrices import HEALTHY_BYTES_PER_SECOND, matrix

TENTH = HEALTHY_BYTES_PER_SECOND / 10


def slow(nodes: int, where, *more) -> object:
    return job(matrix(nodes, speed=lambda a, b: TENTH if where(a, b) else HEALTHY_BYTES_PER_SECOND), *more)


def bench(busbw: float) -> CollectiveBench:
    """An all_reduce of three ranks that went as fast as that."""
    seconds = 4 / 3 * (1 << 20) / busbw
    timing = RankTiming(median_seconds=seconds, late_seconds=0.0, finished_last=1 / 3)
    size = SizeTiming(
        size_bytes=1 << 20, count=1 << 18, iterations=1, mean_seconds=seconds, deviation_seconds=0.0,
        seconds=(seconds,) * 3, ranks=(timing,) * 3,
    )  # fmt: skip
    ranks = tuple(BenchRank(host=f"host-{number}", cores=8, device="cpu") for number in range(3))
    return CollectiveBench(
        collective="all_reduce", dtype="float32", op="sum", backend="gloo", torch="2.13.0", ranks=ranks, sizes=(size,)
    )


SICK = (
    Sick(
        evidence=slow(3, lambda a, b: 1 in (a, b), bench(TENTH)),
        says="host-1 has 1000 Mbit/s, 10% of the job's median of 10000 Mbit/s",
        ranks=(1,),
        hosts=("host-1",),
        measured={"figure": "bytes_per_second", "value": 125000000.0, "median": 1250000000.0},
    ),
    Sick(  # four of the six directions of three nodes are slow: the median of all of them would be slow too
        evidence=slow(3, lambda a, b: 1 in (a, b)),
        says="host-1 has 1000 Mbit/s, 10% of the job's median of 10000 Mbit/s",
        ranks=(1,),
        hosts=("host-1",),
        measured={"figure": "bytes_per_second", "value": 125000000.0, "median": 1250000000.0},
    ),
    Sick(
        evidence=job(matrix(4, latency=lambda a, b: 5e-3 if 3 in (a, b) else 50e-6)),
        says="host-3 has 5 ms latency, 100 times the job's median of 0.05 ms",
        ranks=(3,),
        hosts=("host-3",),
        measured={"figure": "latency_seconds", "value": 0.005, "median": 5e-05},
    ),
    Sick(
        evidence=slow(5, lambda a, b: 2 in (a, b)),
        says="host-2 has 1000 Mbit/s, 10% of the job's median of 10000 Mbit/s",
        ranks=(2,),
        hosts=("host-2",),
        measured={"figure": "bytes_per_second", "value": 125000000.0, "median": 1250000000.0},
    ),
    Sick(
        evidence=slow(5, lambda a, b: a == 2),
        says="host-2 has outbound 1000 Mbit/s, 10% of the job's median of 10000 Mbit/s",
        ranks=(2,),
        hosts=("host-2",),
        measured={"figure": "bytes_per_second", "value": 125000000.0, "median": 1250000000.0},
    ),
    Sick(
        evidence=slow(5, lambda a, b: {a, b} == {0, 4}),
        says="host-0 and host-4 have 1000 Mbit/s, 10% of the job's median of 10000 Mbit/s",
        ranks=(0, 4),
        hosts=("host-0", "host-4"),
        measured={"figure": "bytes_per_second", "value": 125000000.0, "median": 1250000000.0},
    ),
    Sick(
        evidence=job(matrix(3, speed=lambda a, b: TENTH, speed_mbit=10_000)),
        says="the median TCP stream reaches 1000 Mbit/s, but the interfaces report 10000 Mbit/s",
        measured={"median_bytes_per_second": 125000000.0, "stated_mbit": 10000},
    ),
)
HEALTHY = (
    slow(
        3, lambda a, b: 1 in (a, b), bench(HEALTHY_BYTES_PER_SECOND / 2)
    ),  # the collective came through host-1 as usual
    job(matrix(3)),
    job(matrix(3, speed=lambda a, b: 2.3e9 if (a, b) == (0, 2) else 6e9)),  # a busy processor halts one stream
    job(matrix(4, latency=lambda a, b: 1.5e-3 if 3 in (a, b) else 50e-6)),
    job(matrix(4, latency=lambda a, b: 5e-3 if 3 in (a, b) else 1e-3)),
    job(matrix(4, speed=lambda a, b: HEALTHY_BYTES_PER_SECOND / (1 + (a + b) % 2))),
    job(matrix(3, speed=lambda a, b: TENTH, speed_mbit=100_000)),
)
