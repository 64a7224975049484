"""Bus bandwidths that others measured and published, by hardware: what `allreduce-bench` is compared with.

All are for messages of a gibibyte and more on healthy systems. Where a publisher states the least that passes his own
acceptance test, that is the figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.bench import CollectiveBench

_STAS = "Stas Bekman, ML Engineering Open Book, network benchmarks"
_AZURE = "Azure HPC node health checks, acceptance threshold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published figure."""

    device: str
    """A part of the GPU's name."""
    ranks: int
    """The number of ranks."""
    hosts: int
    """The number of hosts."""
    collective: str
    """As nccl-tests calls it, such as `all_reduce`."""
    gigabytes_per_second: float
    """The busbw, in 1e9 bytes per second."""
    source: str
    """Who published it."""


PUBLISHED = (
    Published(device="A100-SXM4", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=228, source=_AZURE),
    Published(device="V100-SXM2", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=110, source=_AZURE),
    Published(device="H100 80GB HBM3", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=460, source=_AZURE),
    Published(device="H100 NVL", ranks=2, hosts=1, collective="all_reduce", gigabytes_per_second=208, source=_AZURE),
    Published(device="H200", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=480, source=_STAS),
    Published(device="H200", ranks=7, hosts=1, collective="all_reduce", gigabytes_per_second=460, source=_STAS),
    Published(device="H200", ranks=6, hosts=1, collective="all_reduce", gigabytes_per_second=436, source=_STAS),
    Published(device="H200", ranks=5, hosts=1, collective="all_reduce", gigabytes_per_second=414, source=_STAS),
    Published(device="H200", ranks=4, hosts=1, collective="all_reduce", gigabytes_per_second=363, source=_STAS),
    Published(device="H200", ranks=8, hosts=1, collective="all_gather", gigabytes_per_second=361, source=_STAS),
    Published(device="H200", ranks=8, hosts=1, collective="reduce_scatter", gigabytes_per_second=363, source=_STAS),
    Published(device="B200", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=838, source=_STAS),
    Published(device="B200", ranks=32, hosts=4, collective="all_reduce", gigabytes_per_second=382, source=_STAS),
    Published(device="MI300X", ranks=8, hosts=1, collective="all_reduce", gigabytes_per_second=314, source=_AZURE),
)  # fmt: skip


def published_for(bench: CollectiveBench) -> Published | None:
    """The figure for exactly this device, number of ranks and hosts, and collective, or None where nobody published one."""
    devices = {place.device for place in bench.ranks}
    hosts = len({place.host for place in bench.ranks})
    for figure in PUBLISHED:
        if (
            len(devices) == 1
            and figure.device in next(iter(devices))
            and (figure.ranks, figure.hosts, figure.collective) == (len(bench.ranks), hosts, bench.collective)
        ):
            return figure
    return None
