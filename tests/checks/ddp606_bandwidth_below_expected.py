"""Eight H100 that reach half of what such hosts reach, a ninth short of it, and all of it."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming
from ddpdoctor.model import Severity
from tests.checks import Sick, job


def h100(busbw: float) -> Evidence:
    """Eight H100 on one host whose all-reduce of 4 GiB has this bus bandwidth in GB/s."""
    size = 4 << 30
    seconds = size / (busbw * 1e9) * 2 * 7 / 8
    rank = RankTiming(median_seconds=seconds, late_seconds=0.0, finished_last=0.125)
    return job(
        CollectiveBench(
            collective="all_reduce",
            dtype="float32",
            op="sum",
            backend="nccl",
            torch="2.13.0",
            ranks=(BenchRank(host="host-a", cores=96, device="NVIDIA H100 80GB HBM3"),) * 8,
            sizes=(
                SizeTiming(
                    size_bytes=size,
                    count=size // 4,
                    iterations=5,
                    mean_seconds=seconds,
                    deviation_seconds=0.0,
                    seconds=(seconds,) * 5,
                    ranks=(rank,) * 8,
                ),
            ),
        )
    )


SOURCE = "Azure HPC node health checks, acceptance threshold"
SICK = (
    Sick(
        evidence=h100(230),
        says="all_reduce over 8 x NVIDIA H100 80GB HBM3 reaches 230 GB/s busbw, 50% of the 460 GB/s published "
        f"({SOURCE})",
        hosts=("host-a",),
        measured={
            "busbw": 230000000000.0,
            "published": 460000000000.0,
            "share": 0.5,
            "source": "Azure HPC node health checks, acceptance threshold",
        },
    ),
    Sick(
        evidence=h100(400),
        says="all_reduce over 8 x NVIDIA H100 80GB HBM3 reaches 400 GB/s busbw, 87% of the 460 GB/s published "
        f"({SOURCE})",
        hosts=("host-a",),
        measured={
            "busbw": 400000000000.0,
            "published": 460000000000.0,
            "share": 0.869565,
            "source": "Azure HPC node health checks, acceptance threshold",
        },
        severity=Severity.WARN,
    ),
)
HEALTHY = (h100(455), h100(478))
