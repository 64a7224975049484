"""A reduction that gives a sum, or a mean divided once more, in place of the mean of the ranks' gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

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


def uneven_scale(steps: Sequence[ByRank]) -> Iterator[ReductionScaled]:
    """Gradients that a communication hook of the user's own scales in another way than the rest, in each step from one on.

    A bucket holds whatever parameters are ready together: a hook has no reason to tell them apart. Nothing has written the
    gradients after the backward, and a compressed reduction has other factors in each step.
    """
    factors = [_factors(seen) for seen in steps]
    first = next((place for place, each in enumerate(factors) if each is not None and _is_uneven(each)), None)
    if first is None or len(factors) - first < STEADY_STEPS:
        return
    then = factors[first] or {}
    if not all(each is not None and _is_alike(each, then) for each in factors[first:]):
        return
    usual = min(then.values(), key=lambda factor: abs(factor - 1))
    names = tuple(name for name, factor in then.items() if abs(factor / usual - 1) > FACTOR_TOLERANCE)
    yield ReductionScaled(
        step=step_of(steps[first]), ranks=tuple(sorted(steps[first])), factor=round(then[names[0]], 4), tensors=names,
        total=len(then), lines={rank: one.comm_hook for rank, one in steps[first].items() if one.comm_hook}, by_hook=True,
    )  # fmt: skip


def _factors(seen: ByRank) -> dict[str, float] | None:
    """By name the reduced gradient over the mean of the local ones, as the user's own communication hook left it; else None."""
    for one in seen.values():
        written = one.integrity is None or one.integrity.gradient_writes != 0
        if one.comm_hook is None or one.hook_of_torch or written or one.scale is not None:
            return None
    found = {}
    for name in set.intersection(*(set(one.gradients) for one in seen.values())):
        gradients = [one.gradients[name] for one in seen.values()]
        mean = sum(gradient.local or 0.0 for gradient in gradients) / len(gradients)
        if len({gradient.digest for gradient in gradients}) > 1 or not math.isfinite(mean):
            return None
        if mean and all(gradient.local is not None and gradient.standing == "reduced" for gradient in gradients):
            found[name] = gradients[0].reduced / mean
    return dict(sorted(found.items()))


def _is_uneven(factors: Mapping[str, float]) -> bool:
    known = [factor for factor in factors.values() if factor > 0]
    return len(known) == len(factors) > 1 and max(known) > (1 + FACTOR_TOLERANCE) * min(known)


def _is_alike(factors: Mapping[str, float], others: Mapping[str, float]) -> bool:
    return factors.keys() == others.keys() and all(
        abs(factor / others[name] - 1) < FACTOR_TOLERANCE for name, factor in factors.items()
    )


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
