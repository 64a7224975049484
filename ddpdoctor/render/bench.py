"""A benchmark as people read it: the table of nccl-tests with the spread beside it, the fit, and bandwidth over size."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ddpdoctor.analysis.performance.alpha_beta import AlphaBeta, derive
from ddpdoctor.analysis.performance.bandwidth import (
    algorithm_bandwidth,
    bus_bandwidth,
    last_to_finish,
    quantile,
    variation,
)
from ddpdoctor.evidence.bench import CollectiveBench, SizeTiming
from ddpdoctor.model import Measure, SkipCheck, group_ranks
from ddpdoctor.quoting import quoted

BAR_WIDTH = 50
FEWEST_BARS = 3
HEADER = (
    "size",
    "count",
    "type",
    "op",
    "time",
    "algbw",
    "busbw",
    "#wrong",
    "min",
    "p50",
    "p95",
    "max",
    "CV",
    "last",
    "late",
)
UNITS = ("B", "", "", "", "us", "GB/s", "GB/s", "", "us", "us", "us", "us", "", "", "us")


# left out in this order where the screen is narrow; what remains answers how fast, and how even
LEAST_NEEDED = ("type", "op", "count", "late", "max", "min", "CV", "p95", "last", "p50")


def render(bench: CollectiveBench, *, width: int | None = None) -> str:
    """The whole screen above the report; a table that is wider than `width` leaves columns out, and says which."""
    lines = [quoted(title(bench)), ""]
    if bench.sizes:
        lines += [*table(bench, width=width), "", *fit_lines(bench)]
    lines += [values_line(bench), *bars(bench)]
    return "\n".join(lines) + "\n"


def title(bench: CollectiveBench) -> str:
    """What was measured, on what."""
    hosts = list(dict.fromkeys(place.host for place in bench.ranks))
    devices = ", ".join(dict.fromkeys(place.device for place in bench.ranks))
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    return (
        f"{bench.collective} over {bench.backend}, {len(bench.ranks)} ranks on {where} ({devices}), torch {bench.torch}"
    )


def table(bench: CollectiveBench, *, width: int | None = None) -> list[str]:
    """One line per size, aligned; with `width`, of the columns that fit in it."""
    rows = [HEADER, UNITS, *(row(bench, size) for size in bench.sizes)]
    widths = {name: max(len(cells[column]) for cells in rows) for column, name in enumerate(HEADER)}
    left_out: list[str] = []
    for name in LEAST_NEEDED:
        if width is None or sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
        del widths[name]
        left_out.append(name)
    kept = [(column, widths[name]) for column, name in enumerate(HEADER) if name in widths]
    lines = ["  ".join(f"{cells[column]:>{columns}}" for column, columns in kept).rstrip() for cells in rows]
    if left_out:
        named = ", ".join(name for name in HEADER if name in left_out)
        lines += ["", *textwrap.wrap(f"not shown: {named} (a wider terminal or --format csv shows them)", width or 80)]
    return lines


def fit_lines(bench: CollectiveBench) -> list[str]:
    """The alpha-beta fit with its error, or why there is none."""
    try:
        fit = derive(bench)
    except SkipCheck as reason:
        return [f"no fit: {reason}"]
    latency = f"latency {_us(fit.latency_seconds)} us ±{_percent(fit.latency_error)}"
    bandwidth = f"{_gb(fit.algorithm_bandwidth)} GB/s algbw, {_gb(fit.bus_bandwidth)} GB/s busbw ±{_percent(fit.bandwidth_error)}"
    return [
        f"fit: {latency}, bandwidth {bandwidth};",
        f"     off by {_percent(fit.typical_error)} typically, by {_percent(fit.worst_error)} at {short(fit.worst_bytes)}",
    ]


def facts(bench: CollectiveBench) -> tuple[tuple[str, str], ...]:
    """Each size in one line, for markdown."""
    return tuple(
        (
            short(size.size_bytes),
            f"{_us(size.mean_seconds)} us, busbw {_gb(bus_bandwidth(bench, size))} GB/s, {_wrong(bench, size)} wrong",
        )
        for size in bench.sizes
    )


def values_line(bench: CollectiveBench) -> str:
    """How many counts were compared, and how many elements were wrong."""
    wrong = sum(each.elements for each in bench.wrong)
    odd = sum(count % 2 for count in bench.checked)
    ranks = f" on {group_ranks([each.rank for each in bench.wrong])}" if wrong else ""
    zero = ", 0 included" if 0 in bench.checked else ""
    return (
        f"values: {len(bench.checked)} counts compared on fresh buffers, {odd} of them odd{zero}: {wrong} wrong{ranks}"
    )


def bars(bench: CollectiveBench) -> list[str]:
    """Bus bandwidth over size, where there are sizes enough to show a curve."""
    sizes = [size for size in bench.sizes if bus_bandwidth(bench, size) > 0]
    if len(sizes) < FEWEST_BARS:
        return []
    most = max(bus_bandwidth(bench, size) for size in sizes)
    lines = ["", "busbw"]
    for size in sizes:
        bandwidth = bus_bandwidth(bench, size)
        eighths = round(BAR_WIDTH * 8 * bandwidth / most)
        bar = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
        lines.append(f"{short(size.size_bytes):>6}  {bar or '▏'} {_gb(bandwidth)}")
    return lines


def measured(bench: CollectiveBench) -> dict[str, Measure]:
    """The same in numbers, for JSON: seconds, bytes, bytes per second."""
    try:
        fit: AlphaBeta | None = derive(bench)
    except SkipCheck:
        fit = None
    return {
        "collective": bench.collective,
        "backend": bench.backend,
        "dtype": bench.dtype,
        "op": bench.op,
        "world_size": len(bench.ranks),
        "checked": len(bench.checked),
        "wrong": sum(each.elements for each in bench.wrong),
        "rank_work": [rank.work_seconds for rank in bench.ranks],
        "sizes": [_numbers(bench, size) for size in bench.sizes],
        "fit": None
        if fit is None
        else {
            "latency_seconds": fit.latency_seconds,
            "latency_error": fit.latency_error,
            "algbw": fit.algorithm_bandwidth,
            "busbw": fit.bus_bandwidth,
            "bandwidth_error": fit.bandwidth_error,
            "typical_error": fit.typical_error,
            "worst_error": fit.worst_error,
            "worst_bytes": fit.worst_bytes,
        },
    }


def short(size_bytes: int) -> str:
    """`64K`, `1M`, or the bytes where they are no whole number of those."""
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit}{letter}"
    return str(size_bytes)


def row(bench: CollectiveBench, size: SizeTiming) -> Sequence[str]:
    """One size as cells, in the order of `HEADER`."""
    last = last_to_finish(size)
    return (
        str(size.size_bytes),
        str(size.count),
        quoted(bench.dtype),
        quoted(bench.op or "-"),
        _us(size.mean_seconds),
        _gb(algorithm_bandwidth(size)),
        _gb(bus_bandwidth(bench, size)),
        str(_wrong(bench, size)),
        *(_us(quantile(size.seconds, share)) for share in (0, 0.5, 0.95, 1)),
        _percent(variation(size)),
        f"r{last} {_percent(size.ranks[last].finished_last)}",
        _us(max(rank.late_seconds for rank in size.ranks)),
    )


def _numbers(bench: CollectiveBench, size: SizeTiming) -> dict[str, Measure]:
    return {
        "bytes": size.size_bytes,
        "count": size.count,
        "iterations": size.iterations,
        "mean": size.mean_seconds,
        "min": size.seconds[0],
        "p50": quantile(size.seconds, 0.5),
        "p95": quantile(size.seconds, 0.95),
        "max": size.seconds[-1],
        "cv": variation(size),
        "algbw": algorithm_bandwidth(size),
        "busbw": bus_bandwidth(bench, size),
        "wrong": _wrong(bench, size),
        "slowest_rank": last_to_finish(size),
        "rank_median": [rank.median_seconds for rank in size.ranks],
        "rank_late": [rank.late_seconds for rank in size.ranks],
        "rank_finished_last": [rank.finished_last for rank in size.ranks],
    }


def _wrong(bench: CollectiveBench, size: SizeTiming) -> int:
    return sum(wrong.elements for wrong in bench.wrong if wrong.count in (size.count, size.count - 1))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}" if seconds < 1e-3 else f"{seconds * 1e6:.0f}"


def _gb(bandwidth: float) -> str:
    return f"{bandwidth / 1e9:.3g}" if bandwidth < 1e9 else f"{bandwidth / 1e9:.2f}"


def _percent(share: float) -> str:
    return f"{share:.0%}"
