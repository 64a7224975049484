"""DDP606: known hardware whose collectives carry clearly less than others measured on the same hardware."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.performance.bandwidth import bus_factor, median_seconds
from ddpdoctor.analysis.performance.published_bandwidth import published_for
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP606",
    name="bandwidth-below-expected",
    summary="a collective's bandwidth is below published figures for the same hardware",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor allreduce-bench` is below published figures",
    remedy="compare `nvidia-smi topo -m` and `nvidia-smi nvlink --status` with a healthy host, look for throttled or degraded "
    "GPUs with `ddpdoctor env`, and run with NCCL_DEBUG=INFO to see which transport NCCL chose",
)
# the published figures are peaks, of messages of a gibibyte and more: no smaller one is compared with them
LEAST_BYTES = 1 << 30
GOOD = 0.9  # of the published figure; healthy hosts of one kind differ by less (Azure's thresholds are 3-5 % below typical)
BAD = 0.7  # below this a link, a GPU or the topology is at fault, not the day


def check(bench: CollectiveBench) -> Iterator[Finding]:
    """A warning below nine tenths of the published figure, a failure below seven; other hardware is not judged."""
    published = published_for(bench)
    devices = ", ".join(dict.fromkeys(place.device for place in bench.ranks))
    hosts = list(dict.fromkeys(place.host for place in bench.ranks))
    if published is None:
        raise SkipCheck(
            f"no published figure for {bench.collective} over {len(bench.ranks)} x {devices} on {len(hosts)} "
            f"host{'s' if len(hosts) > 1 else ''}"
        )
    large = [size for size in bench.sizes if size.size_bytes >= LEAST_BYTES]
    if not large:
        raise SkipCheck("the published figures are for 1 GiB and more: measure with `--sizes 1G..4G`")
    factor = bus_factor(bench.collective, len(bench.ranks))
    best = max(size.size_bytes / median_seconds(size) * factor for size in large) / 1e9
    share = best / published.gigabytes_per_second
    if share < GOOD:
        yield RULE.finding(
            f"{bench.collective} over {len(bench.ranks)} x {devices} reaches {best:.0f} GB/s busbw, {share:.0%} of the "
            f"{published.gigabytes_per_second:g} GB/s published ({published.source})",
            hosts=hosts,
            severity=Severity.FAIL if share < BAD else Severity.WARN,
            busbw=best * 1e9,
            published=published.gigabytes_per_second * 1e9,
            share=share,
            source=published.source,
        )
