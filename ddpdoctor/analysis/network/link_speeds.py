"""How fast the links of a job are, each against the usual one of the job."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median, median_high

from ddpdoctor.evidence.links import NodeLink
from ddpdoctor.grouping import grouped

SLOW = 0.4  # of the median; TCP streams of one healthy job differ by a third, those of busy hosts by a half
ONE_STREAM_BYTES_PER_SECOND = 1.25e9  # 10 Gbit/s: what is faster than that tells of the processors, not of the link
LATE = 10.0  # times the median: racks and zones of one healthy cluster differ by a few times
# and this much above it: a host whose processors are all taken halts even the best of five round trips
LATE_SECONDS = 2e-3


def median_speed(links: Iterable[NodeLink]) -> float | None:
    """The stream of the median node in bytes per second, or None with fewer than three nodes."""
    return _usual((link, link.bytes_per_second) for link in links)


def median_latency(links: Iterable[NodeLink]) -> float | None:
    """The latency of the median node in seconds, or None with fewer than three nodes."""
    inverse = _usual((link, 1 / link.latency_seconds if link.latency_seconds else None) for link in links)
    return 1 / inverse if inverse else None


def is_slow(link: NodeLink, speed: float) -> bool:
    """Whether a measured stream is far below the usual one, and slow enough to be the link's doing."""
    return link.bytes_per_second is not None and link.bytes_per_second < min(SLOW * speed, ONE_STREAM_BYTES_PER_SECOND)


def is_late(link: NodeLink, latency: float) -> bool:
    """Whether a measured latency is far above the usual one."""
    seconds = link.latency_seconds
    return seconds is not None and seconds > LATE * latency and seconds > latency + LATE_SECONDS


def _usual(figures: Iterable[tuple[NodeLink, float | None]]) -> float | None:
    """The median over nodes of what the better half of each one's links reach; the higher a figure, the better.

    Not the median of all links: one slow node among three has four of their six directions.
    """
    by_node = grouped((node, figure) for link, figure in figures if figure for node in (link.source, link.target))
    return median(map(median_high, by_node.values())) if len(by_node) > 2 else None
