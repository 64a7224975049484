"""The alpha-beta model of a collective: time = latency + size / bandwidth, fitted to what was measured.

The fit weighs relative errors, so that a microsecond at 1 KiB counts as much as a millisecond at 1 MiB. One line for
all sizes is a model, not the truth: protocols and caches change with size. So the error of the fit is part of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.performance.bandwidth import bus_factor, median_seconds
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.model import SkipCheck

FEWEST_SIZES = 3  # two points always lie on a line


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBeta:
    """The fit of the time of a collective to its size."""

    latency_seconds: float
    """The latency of an empty collective."""
    latency_error: float
    """One standard error of it, as a share of it."""
    algorithm_bandwidth: float
    """The algbw that large sizes approach, in bytes per second."""
    bus_bandwidth: float
    """The busbw that they approach, in bytes per second."""
    bandwidth_error: float
    """One standard error of both, as a share of them."""
    typical_error: float
    """The root mean square of the relative errors over the sizes."""
    worst_error: float
    """The largest relative error."""
    worst_bytes: int
    """The size at which it is the largest."""

    def seconds(self, size_bytes: int) -> float:
        """What the model says for a size."""
        return self.latency_seconds + size_bytes / self.algorithm_bandwidth


def derive(bench: CollectiveBench) -> AlphaBeta:
    """The fit over the medians of all sizes above zero.

    Raises:
        SkipCheck: there are fewer than three, or they do not grow with size.
    """
    points = [(float(size.size_bytes), median_seconds(size)) for size in bench.sizes if size.size_bytes]
    if len(points) < FEWEST_SIZES:
        raise SkipCheck(f"latency and bandwidth need {FEWEST_SIZES} sizes; there are {len(points)}")
    (latency, per_byte), (latency_error, per_byte_error) = relative_line(points)
    if per_byte <= 0:
        raise SkipCheck("the times do not grow with size")
    errors = [((latency + size * per_byte - seconds) / seconds, int(size)) for size, seconds in points]
    worst, worst_bytes = max(errors, key=lambda error: abs(error[0]))
    return AlphaBeta(
        latency_seconds=latency,
        latency_error=latency_error / latency if latency else math.inf,
        algorithm_bandwidth=1 / per_byte,
        bus_bandwidth=bus_factor(bench.collective, len(bench.ranks)) / per_byte,
        bandwidth_error=per_byte_error / per_byte,
        typical_error=math.sqrt(sum(error * error for error, _ in errors) / len(errors)),
        worst_error=abs(worst),
        worst_bytes=worst_bytes,
    )


def relative_line(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Intercept and slope of the line with the least squared relative errors, and the standard errors of both.

    `points` are (x, y); an intercept below 0 becomes 0.
    """
    # with u = 1/y and v = x/y the model is 1 = a u + b v
    rows = [(1 / y, x / y) for x, y in points]
    uu = sum(u * u for u, _ in rows)
    uv = sum(u * v for u, v in rows)
    vv = sum(v * v for _, v in rows)
    u_sum, v_sum = sum(u for u, _ in rows), sum(v for _, v in rows)
    determinant = uu * vv - uv * uv
    if determinant <= 0:
        return (0.0, v_sum / vv), (0.0, 0.0)
    intercept = (u_sum * vv - v_sum * uv) / determinant
    slope = (v_sum * uu - u_sum * uv) / determinant
    if intercept < 0:
        intercept, slope = 0.0, v_sum / vv
    variance = sum((intercept * u + slope * v - 1) ** 2 for u, v in rows) / (len(rows) - 2)
    return (intercept, slope), (math.sqrt(variance * vv / determinant), math.sqrt(variance * uu / determinant))
