"""Bandwidth over size as a picture: PNG or SVG, through matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

from ddpdoctor.analysis.performance.bandwidth import bus_bandwidth, quantile
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.render.bench import short, title


def render(benches: Sequence[tuple[str, CollectiveBench]], *, file_format: str) -> bytes:
    """Bus bandwidth and time over size, one line for each (label, bench); `file_format` is `png` or `svg`."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "ddpdoctor"  # the same run gives the same file
    from matplotlib import pyplot as plt

    figure, (bandwidths, times) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for label, bench in benches:
        sizes = [size for size in bench.sizes if size.size_bytes]
        at = [size.size_bytes for size in sizes]
        bandwidths.plot(at, [bus_bandwidth(bench, size) / 1e9 for size in sizes], marker="o", label=label)
        spread = [size.seconds for size in sizes]
        (line,) = times.plot(at, [quantile(each, 0.5) * 1e6 for each in spread], marker="o", label=label)
        times.fill_between(
            at,
            [quantile(each, 0) * 1e6 for each in spread],
            [quantile(each, 0.95) * 1e6 for each in spread],
            alpha=0.2,
            color=line.get_color(),
        )
    bandwidths.set(xscale="log", xlabel="size", ylabel="busbw, GB/s", ylim=(0, None))
    times.set(xscale="log", yscale="log", xlabel="size", ylabel="time, us: median, min to p95")
    ticks = sorted({size.size_bytes for _, bench in benches for size in bench.sizes if size.size_bytes})
    for axes in (bandwidths, times):
        axes.set_xticks(ticks, [short(tick) for tick in ticks], rotation=45)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        if len(benches) > 1:
            axes.legend()
    figure.suptitle(title(benches[0][1]))
    drawn = io.BytesIO()
    figure.savefig(drawn, format=file_format, metadata={"Date": None} if file_format == "svg" else None)
    plt.close(figure)
    return drawn.getvalue()
