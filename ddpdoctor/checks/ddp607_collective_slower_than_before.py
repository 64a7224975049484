"""DDP607: a collective takes longer than in an earlier run of the same benchmark, beyond what both runs vary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.performance.bandwidth import median_seconds, quantile
from ddpdoctor.evidence.bench import CollectiveBench, EarlierBench, SizeTiming
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP607",
    name="collective-slower-than-before",
    summary="a collective takes longer than in the saved run it is compared with, beyond noise",
    severity=Severity.WARN,
    shown_by="`ddpdoctor allreduce-bench` against a saved run",
    remedy="run both again to be sure (`--compare`); then compare `ddpdoctor env --format markdown` of the two states: driver, "
    "library and kernel versions, environment variables, and what else runs on the hosts",
)
# A size is slower when its median is, by more than the middle halves of both runs are wide, and by a quarter at least:
# runs of the same benchmark minutes apart differ by up to a fifth on shared hosts.
LEAST_GROWTH = 1.25
# One size alone may have met a passing load; two of them, or the only one there is, have not.
LEAST_SIZES = 2


@dataclass(frozen=True, slots=True)
class Slower:
    """One size of a benchmark that takes longer than before."""

    size_bytes: int
    """The size, as nccl-tests counts it."""
    before: float
    """The median of the earlier run, in seconds."""
    now: float
    """The median of this run, in seconds."""


def check(bench: CollectiveBench, earlier: EarlierBench) -> Iterator[Finding]:
    """One finding for all sizes that became slower."""
    before = earlier.bench
    same_job = (before.collective, before.dtype, before.op, before.backend, len(before.ranks))
    if same_job != (bench.collective, bench.dtype, bench.op, bench.backend, len(bench.ranks)):
        raise SkipCheck(f"{earlier.source} contains {_job(before)}; this run is {_job(bench)}")
    old = {size.size_bytes: size for size in before.sizes}
    both = [(old[size.size_bytes], size) for size in bench.sizes if size.size_bytes in old]
    if not both:
        raise SkipCheck(f"{earlier.source} contains no size of this run")
    slower = [found for then, now in both if (found := _slower(then, now))]
    if len(slower) < min(LEAST_SIZES, len(both)):
        return
    worst = max(slower, key=lambda each: each.now / each.before)
    yield RULE.finding(
        f"{_job(bench)} is slower than in {earlier.source} at {len(slower)} of {len(both)} sizes, by up to "
        f"{worst.now / worst.before:.1f}x at {worst.size_bytes} bytes: {worst.now * 1e6:.0f} us instead of "
        f"{worst.before * 1e6:.0f} us",
        details=[
            f"{each.size_bytes} bytes: {each.now * 1e6:.0f} us instead of {each.before * 1e6:.0f} us" for each in slower
        ],
        slower=[{"bytes": each.size_bytes, "before": each.before, "now": each.now} for each in slower],
        compared=len(both),
    )


def _slower(then: SizeTiming, now: SizeTiming) -> Slower | None:
    before, after = median_seconds(then), median_seconds(now)
    width = sum(quantile(size.seconds, 0.75) - quantile(size.seconds, 0.25) for size in (then, now))
    if after > LEAST_GROWTH * before and after - before > width:
        return Slower(now.size_bytes, before, after)
    return None


def _job(bench: CollectiveBench) -> str:
    op = f" {bench.op}" if bench.op else ""
    return f"{bench.collective} of {bench.dtype}{op} over {bench.backend} on {len(bench.ranks)} ranks"
