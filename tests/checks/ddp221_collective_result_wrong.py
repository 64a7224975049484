"""An all-reduce whose sum is off in one element of one rank, and one that is exact."""

from dataclasses import replace

from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming, WrongValues
from tests.checks import Sick, job

EXACT = CollectiveBench(
    collective="all_reduce",
    dtype="float32",
    op="sum",
    backend="gloo",
    torch="2.13.0",
    ranks=tuple(BenchRank(host=f"host-{letter}", cores=8, device="cpu") for letter in "ab"),
    sizes=(
        SizeTiming(
            size_bytes=1024,
            count=256,
            iterations=3,
            mean_seconds=1.1e-4,
            deviation_seconds=1e-5,
            seconds=(1e-4, 1.1e-4, 1.2e-4),
            ranks=(
                RankTiming(median_seconds=1e-4, late_seconds=0.0, finished_last=0.5),
                RankTiming(median_seconds=1e-4, late_seconds=1e-6, finished_last=0.5),
            ),
        ),
    ),
    checked=(0, 1, 7, 255, 256),
)

SICK = (
    Sick(
        evidence=job(
            replace(
                EXACT,
                wrong=(WrongValues(count=255, rank=1, elements=1, received=255, index=12, expected="43", got="47"),),
            )
        ),
        says="all_reduce of float32 (sum) returns wrong values on rank 1 at 1 of 5 counts, first 47 instead of 43 in element "
        "12 of 255",
        ranks=(1,),
        hosts=("host-b",),
        measured={"elements": 1, "counts": [255], "checked": 5},
    ),
)
HEALTHY = (job(EXACT),)
