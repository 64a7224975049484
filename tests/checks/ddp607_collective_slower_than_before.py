"""An all-reduce that takes twice as long as in the saved run, and runs that only vary."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, EarlierBench, RankTiming, SizeTiming
from tests.checks import Sick, job

SPREAD = (0.95, 0.98, 1.0, 1.0, 1.03, 1.1, 1.9)


def run(*medians: float) -> CollectiveBench:
    """Sizes of 1, 4, 16 ... MiB with these median times in ms."""
    rank = RankTiming(median_seconds=1e-3, late_seconds=0.0, finished_last=0.5)
    return CollectiveBench(
        collective="all_reduce",
        dtype="float32",
        op="sum",
        backend="gloo",
        torch="2.13.0",
        ranks=(BenchRank(host="host-a", cores=8, device="cpu"),) * 2,
        sizes=tuple(
            SizeTiming(
                size_bytes=(1 << 20) * 4**place,
                count=(1 << 18) * 4**place,
                iterations=len(SPREAD),
                mean_seconds=median * 1e-3,
                deviation_seconds=0.1e-3,
                seconds=tuple(median * 1e-3 * factor for factor in SPREAD),
                ranks=(rank, rank),
            )
            for place, median in enumerate(medians)
        ),
    )


def compared(now: CollectiveBench, before: CollectiveBench) -> Evidence:
    return job(now, EarlierBench(source="monday.json", bench=before))


SICK = (
    Sick(
        evidence=compared(run(2, 8, 33), run(1, 4, 30)),
        says="all_reduce of float32 sum over gloo on 2 ranks is slower than in monday.json at 2 of 3 sizes, by up to "
        "2.0x at 1048576 bytes: 2000 us instead of 1000 us",
        measured={
            "slower": [
                {"bytes": 1048576, "before": 0.001, "now": 0.002},
                {"bytes": 4194304, "before": 0.004, "now": 0.008},
            ],
            "compared": 3,
        },
    ),
)
HEALTHY = (
    compared(run(1.2, 4, 30), run(1, 4, 30)),
    compared(run(2, 4, 30), run(1, 4, 30)),  # one size alone
    compared(run(0.5, 2, 10), run(1, 4, 30)),
)
