"""How fast the links of a job are, each against the median of all."""

from __future__ import annotations

from statistics import median

from ddpdoctor.evidence.links import Link, Links

SLOW = 0.4  # of the median; TCP streams of one healthy job differ by a third, those of busy hosts by a half


def median_speed(links: Links) -> float | None:
    """The median of all measured streams in bytes a second, or None with fewer than three."""
    speeds = [link.bytes_per_second for link in links.links if link.bytes_per_second]
    return median(speeds) if len(speeds) > 2 else None


def is_slow(link: Link, usual: float) -> bool:
    """Whether a measured stream is far below the usual one."""
    return link.bytes_per_second is not None and link.bytes_per_second < SLOW * usual
