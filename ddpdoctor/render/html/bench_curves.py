"""A benchmark as curves: bandwidth and time over size, with the fit and the published figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.performance.alpha_beta import AlphaBeta, derive
from ddpdoctor.analysis.performance.bandwidth import bus_bandwidth, bus_factor, median_seconds
from ddpdoctor.analysis.performance.published_bandwidth import published_for
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import CollectiveBench, EarlierBench, SizeTiming
from ddpdoctor.model import SkipCheck
from ddpdoctor.render.bench import HEADER, UNITS, fit_lines, row, short, title, values_line
from ddpdoctor.render.html.charts import Chart, Series, decade_axis, linear_axis, size_axis


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSection:
    """The two charts, the table of the terminal, and the sentences below it."""

    title: str
    """The collective, dtype, backend and ranks."""
    charts: tuple[Chart, ...]
    """Bandwidth and time over size, beside those of an earlier run where there is one."""
    header: tuple[tuple[str, str], ...]
    """Of each column the name and the unit."""
    rows: tuple[tuple[str, ...], ...]
    """One per size, as long as `header`."""
    lines: tuple[str, ...]
    """The fit, the published figure, the check of values, and what was left out."""


def bench_section(evidence: Evidence) -> BenchSection | None:
    """The section; None where nothing was measured."""
    bench = evidence.one(CollectiveBench)
    if bench is None:
        return None
    earlier = evidence.one(EarlierBench)
    published = published_for(bench)
    source = (
        (f"published: {published.gigabytes_per_second:g} GB/s busbw ({published.source})",)
        if published is not None
        else ("published: no figure for this device, number of ranks and collective",)
    )
    return BenchSection(
        title=title(bench),
        charts=_charts(bench, earlier),
        header=tuple(zip(HEADER, UNITS, strict=True)),
        rows=tuple(tuple(row(bench, size)) for size in bench.sizes),
        lines=(*(fit_lines(bench) if bench.sizes else ()), *source, values_line(bench), *bench.left_out),
    )


def _charts(bench: CollectiveBench, earlier: EarlierBench | None) -> tuple[Chart, ...]:
    sizes = [size for size in bench.sizes if size.size_bytes]
    if len(sizes) < 2:
        return ()
    benches = [("this run", bench), *([(f"earlier: {earlier.source}", earlier.bench)] if earlier is not None else [])]
    at = [float(size.size_bytes) for size in sizes]
    bandwidths = _measured(benches, lambda each, size: bus_bandwidth(each, size) / 1e9)
    times = _measured(benches, lambda _, size: median_seconds(size) * 1e6)
    fit = _fit(bench)
    if fit is not None:
        factor = bus_factor(bench.collective, len(bench.ranks))
        bandwidths.append(_dashed("fit", [(x, factor * x / fit.seconds(int(x)) / 1e9) for x in at], color=3))
        times.append(_dashed("fit", [(x, fit.seconds(int(x)) * 1e6) for x in at], color=3))
    published = published_for(bench)
    if published is not None:
        figure = published.gigabytes_per_second
        bandwidths.append(_dashed("published", [(at[0], figure), (at[-1], figure)], color=4))
    x = size_axis("size", sorted({x for series in times for x, _ in series.points}), lambda size: short(int(size)))
    best = max(y for _, y in bandwidths[0].points)
    return (
        Chart(
            title="Bus bandwidth",
            sentence=f"Bus bandwidth over size, at most {best:.3g} GB/s.",
            x=x,
            y=linear_axis("busbw, GB/s", [y for series in bandwidths for _, y in series.points], from_zero=True),
            series=tuple(bandwidths),
        ),
        Chart(
            title="Time",
            sentence=f"Median time over size, from {times[0].points[0][1]:.3g} to {times[0].points[-1][1]:.3g} us.",
            x=x,
            y=decade_axis("time, us", [y for series in times for _, y in series.points]),
            series=tuple(times),
        ),
    )


def _measured(
    benches: Sequence[tuple[str, CollectiveBench]], value: Callable[[CollectiveBench, SizeTiming], float]
) -> list[Series]:
    """One curve per run: a value over size."""
    return [
        Series(
            name=name,
            points=[(size.size_bytes, value(each, size)) for size in each.sizes if size.size_bytes],
            color=number,
        )
        for number, (name, each) in enumerate(benches)
    ]


def _dashed(name: str, points: list[tuple[float, float]], *, color: int) -> Series:
    return Series(name=name, points=points, color=color, style="dashed")


def _fit(bench: CollectiveBench) -> AlphaBeta | None:
    try:
        return derive(bench)
    except SkipCheck:
        return None
