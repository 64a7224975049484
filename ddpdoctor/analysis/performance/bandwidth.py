"""Bandwidths and spread of one measured size, by the formulas of nccl-tests (its doc/PERFORMANCE.md)."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.evidence.bench import CollectiveBench, SizeTiming

RINGS = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")  # everything goes through every host


def algorithm_bandwidth(size: SizeTiming) -> float:
    """The algbw in bytes per second: the size over the mean time, as in nccl-tests."""
    return size.size_bytes / size.mean_seconds if size.size_bytes else 0.0


def bus_bandwidth(bench: CollectiveBench, size: SizeTiming) -> float:
    """The busbw in bytes per second: what the slowest link carries, comparable over numbers of ranks and with hardware."""
    return algorithm_bandwidth(size) * bus_factor(bench.collective, len(bench.ranks))


def bus_factor(collective: str, ranks: int) -> float:
    """The quotient of busbw and algbw."""
    match collective:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks
        case "all_gather" | "reduce_scatter" | "all_to_all":
            return (ranks - 1) / ranks
        case _:
            return 1.0


def carried_by_each_host(bench: CollectiveBench) -> float:
    """The most bytes per second that each host was seen to send and receive: the busbw of the quickest iteration of a ring."""
    if bench.collective not in RINGS:
        return 0.0
    factor = bus_factor(bench.collective, len(bench.ranks))
    return max((factor * size.size_bytes / size.seconds[0] for size in bench.sizes), default=0.0)


def quantile(sorted_values: Sequence[float], share: float) -> float:
    """The quantile of values in ascending order, between neighbours by proportion."""
    place = share * (len(sorted_values) - 1)
    low = int(place)
    high = min(low + 1, len(sorted_values) - 1)
    return sorted_values[low] + (place - low) * (sorted_values[high] - sorted_values[low])


def median_seconds(size: SizeTiming) -> float:
    """The median over all iterations of all ranks: what a busy machine disturbs least."""
    return quantile(size.seconds, 0.5)


def variation(size: SizeTiming) -> float:
    """The coefficient of variation: standard deviation over mean."""
    return size.deviation_seconds / size.mean_seconds


def last_to_finish(size: SizeTiming) -> int:
    """The rank that is the last to finish in most iterations."""
    return max(range(len(size.ranks)), key=lambda rank: size.ranks[rank].finished_last)
