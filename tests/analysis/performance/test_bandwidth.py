"""The formulas of nccl-tests, and the alpha-beta fit on times that are known."""

from __future__ import annotations

import random

import pytest

from ddpdoctor.analysis.performance import alpha_beta
from ddpdoctor.analysis.performance.bandwidth import algorithm_bandwidth, bus_bandwidth, quantile
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench, RankTiming, SizeTiming
from ddpdoctor.model import SkipCheck


def bench(seconds_by_size: dict[int, float], *, collective: str = "all_reduce", ranks: int = 8) -> CollectiveBench:
    rank = RankTiming(median_seconds=1.0, late_seconds=0.0, finished_last=0.1)
    return CollectiveBench(
        collective=collective,
        dtype="float32",
        op="sum",
        backend="gloo",
        torch="2.13.0",
        ranks=(BenchRank(host="host-a", cores=8, device="cpu"),) * ranks,
        sizes=tuple(
            SizeTiming(
                size_bytes=size,
                count=size // 4,
                iterations=1,
                mean_seconds=seconds,
                deviation_seconds=0.0,
                seconds=(seconds,),
                ranks=(rank,) * ranks,
            )
            for size, seconds in seconds_by_size.items()
        ),
    )


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("send_recv", 1.0),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(collective: str, factor: float) -> None:
    """128 MB in 1.2 ms over 8 ranks: 106.67 GB/s algbw."""
    run = bench({128_000_000: 1.2e-3}, collective=collective)
    assert algorithm_bandwidth(run.sizes[0]) == pytest.approx(106.67e9, rel=1e-4)
    assert bus_bandwidth(run, run.sizes[0]) == pytest.approx(106.67e9 * factor, rel=1e-4)


def test_a_size_of_zero_has_no_bandwidth() -> None:
    run = bench({0: 1e-5})
    assert bus_bandwidth(run, run.sizes[0]) == 0


def test_quantiles_lie_between_neighbours() -> None:
    assert [quantile([1.0, 2.0, 4.0], share) for share in (0, 0.25, 0.5, 1)] == [1.0, 1.5, 2.0, 4.0]


def test_the_fit_finds_latency_and_bandwidth_through_noise() -> None:
    noise = random.Random(1)
    sizes = [1 << power for power in range(10, 31, 2)]
    run = bench({size: (50e-6 + size / 10e9) * noise.uniform(0.95, 1.05) for size in sizes})
    fit = alpha_beta.derive(run)
    assert fit.latency_seconds == pytest.approx(50e-6, rel=0.05)
    assert fit.algorithm_bandwidth == pytest.approx(10e9, rel=0.05)
    assert fit.bus_bandwidth == pytest.approx(17.5e9, rel=0.05)
    assert 0.01 < fit.typical_error < fit.worst_error < 0.06
    assert abs(fit.latency_seconds - 50e-6) < 3 * fit.latency_error * fit.latency_seconds


def test_a_fit_that_does_not_hold_says_so() -> None:
    """Twice the time from 64 KiB on: another protocol."""
    sizes = [1 << power for power in range(10, 25, 2)]
    fit = alpha_beta.derive(bench({size: (50e-6 + size / 10e9) * (1 if size < 1 << 16 else 2) for size in sizes}))
    assert fit.worst_error > 0.25


@pytest.mark.parametrize("times", [{1024: 1e-5, 4096: 2e-5}, {1024: 3e-5, 4096: 2e-5, 16384: 1e-6}])
def test_no_fit_without_enough_sizes_or_growth(times: dict[int, float]) -> None:
    with pytest.raises(SkipCheck):
        alpha_beta.derive(bench(times))
