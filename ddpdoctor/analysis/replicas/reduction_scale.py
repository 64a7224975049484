"""A reduction that gives a sum, or a mean divided once more, in place of the mean of the ranks' gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.replicas.aligned_steps import ByRank, step_of
from ddpdoctor.analysis.replicas.divergences.gradients import ReductionScaled
from ddpdoctor.analysis.replicas.step_callsites import lines_at

FACTOR_TOLERANCE = 0.01  # compressed reductions (fp16) are within 0.4 % of the mean; clipping is hardly ever 1/N


STEADY_STEPS = 3  # clipping to a norm may shrink one gradient by 1/N, but not three


def gradient_scale(steps: Sequence[ByRank]) -> Iterator[ReductionScaled]:
    """A reduced gradient that is the number of ranks, or its inverse, times the mean of the local ones: step after step."""
    factors: list[tuple[float, ByRank]] = []
    for seen in steps:
        factor = _factor(seen)
        if factor is None:
            return
        factors.append((factor, seen))
    world_size = len(steps[0]) if steps else 1
    if world_size < 2 or not factors:
        return
    first = factors[0][0]
    steady = all(abs(factor / first - 1) < FACTOR_TOLERANCE for factor, _ in factors)
    multiplied = abs(first / world_size - 1) < FACTOR_TOLERANCE
    divided = abs(first * world_size - 1) < FACTOR_TOLERANCE and len(factors) >= STEADY_STEPS
    if steady and (multiplied or divided):
        seen = factors[0][1]
        hooks = {rank: one.comm_hook for rank, one in seen.items() if one.comm_hook}
        yield ReductionScaled(
            step=step_of(seen), ranks=tuple(sorted(seen)), factor=round(first, 4),
            lines=hooks or lines_at(seen, "backward"), by_hook=bool(hooks),
        )  # fmt: skip


def _factor(seen: ByRank) -> float | None:
    """The reduced gradient over the mean of the local ones, by projections; None where it is no multiple of it."""
    names = set.intersection(*(set(one.gradients) for one in seen.values()))
    xs, ys = [], []
    for name in names:
        gradients = [one.gradients[name] for one in seen.values()]
        if any(g.local is None or g.standing != "reduced" for g in gradients):
            continue
        if len({g.digest for g in gradients}) > 1:
            return None
        xs.append(sum(g.local or 0.0 for g in gradients) / len(gradients))
        ys.append(gradients[0].reduced)
    scale = next(iter(seen.values())).scale or 1.0
    xx, yy, xy = sum(x * x for x in xs), sum(y * y for y in ys), sum(x * y for x, y in zip(xs, ys, strict=True))
    if not math.isfinite(xx + yy) or xx == 0 or yy == 0 or xy * xy < 0.999 * xx * yy:
        return None
    return xy / xx * scale
