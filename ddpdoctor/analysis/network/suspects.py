"""The links that failed and those that are slow, each put down to nodes, groups or single links."""

from __future__ import annotations

from collections.abc import Callable

from ddpdoctor.analysis.network.fault_localization import LinkFaults, attribute
from ddpdoctor.analysis.network.link_speeds import is_late, is_slow, median_latency, median_speed
from ddpdoctor.evidence.links import LinkOutcome, Links, NodeLink

STALLS: tuple[LinkOutcome, ...] = ("large-stalls",)


def broken(links: Links) -> LinkFaults:
    """Who accounts for the directions in which nothing gets through at all."""
    return attribute({(link.source, link.target): link.outcome in {"ok", *STALLS} for link in links.links})


def stalling(links: Links) -> LinkFaults:
    """Who accounts for the directions in which small messages pass and large ones do not."""
    talking = [link for link in links.links if link.outcome in {"ok", *STALLS}]
    return attribute({(link.source, link.target): link.outcome == "ok" for link in talking})


def slow(links: Links) -> LinkFaults:
    """Who accounts for the directions whose stream is far below the median."""
    return _deviating(links, is_slow, median_speed(links.links))


def late(links: Links) -> LinkFaults:
    """Who accounts for the directions whose latency is far above the median."""
    return _deviating(links, is_late, median_latency(links.links))


def _deviating(links: Links, deviates: Callable[[NodeLink, float], bool], median: float | None) -> LinkFaults:
    if median is None:
        return LinkFaults()
    return attribute(
        {(link.source, link.target): not deviates(link, median) for link in links.links if link.outcome == "ok"}
    )


def accused_nodes(links: Links) -> frozenset[int]:
    """The numbers of the nodes that something is wrong with, and of those that never came or fell silent."""
    found = {*links.missing, *links.lost}
    for culprits in (broken(links), stalling(links), slow(links), late(links)):
        found.update(culprits.nodes, culprits.ingress, culprits.egress)
    return frozenset(found)
