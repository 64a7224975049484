"""A node or a link is far slower than the others of the job."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from ddpdoctor.analysis.network.fault_localization import Direction, LinkFaults
from ddpdoctor.analysis.network.link_speeds import median_latency, median_speed
from ddpdoctor.analysis.network.suspects import late, slow
from ddpdoctor.analysis.performance.bandwidth import carried_by_each_host
from ddpdoctor.evidence.bench import CollectiveBench
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP213",
    name="link-slow",
    summary="a node or link has a fraction of the job's median bandwidth, or many times its latency",
    severity=Severity.WARN,
    shown_by="`ddpdoctor net` shows one link or node with a fraction of the other links' bandwidth",
    remedy="check the link's negotiated speed (`ethtool INTERFACE`), its errors (`ethtool -S`), and what else uses it; "
    "exclude the node until it is repaired",
)

OF_STATED = 0.3  # one TCP stream reaches 0.94 of a link up to 10 Gbit/s; above, one stream says nothing of the link
ONE_STREAM_MBIT = 10_000


def check(links: Links, bench: CollectiveBench | None) -> Iterator[Finding]:
    """One finding for each slow node, group or link against the median; else one for a job slower than its interfaces say.

    A stream that was slower than what a collective brought through its host was held up by something else.
    """
    if bench is not None:
        links = _at_least(links, carried_by_each_host(bench))
    speed, latency = median_speed(links.links), median_latency(links.links)
    if speed is None:
        raise SkipCheck("fewer than three nodes were measured, so there is no median")
    accused = slow(links)
    yield from _findings(links, accused, _bandwidth(links, speed))
    if accused == LinkFaults() and latency is not None:
        yield from _findings(links, late(links), _latency(links, latency))
    stated = min((node.speed_mbit for node in links.nodes if node.speed_mbit), default=None)
    if (
        accused == LinkFaults()
        and stated is not None
        and stated <= ONE_STREAM_MBIT
        and _mbit(speed) < OF_STATED * stated
    ):
        yield RULE.finding(
            f"the median TCP stream reaches {_mbit(speed):.0f} Mbit/s, but the interfaces report {stated} Mbit/s",
            median_bytes_per_second=speed,
            stated_mbit=stated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """One figure of each direction, with the median's and how a value is said."""

    name: str
    by_direction: Mapping[Direction, float]
    majority: float
    worst: Callable[[Iterable[float]], float]
    words: Callable[[float], str]


def _at_least(links: Links, bytes_per_second: float) -> Links:
    lifted = (
        replace(link, bytes_per_second=max(link.bytes_per_second, bytes_per_second)) if link.bytes_per_second else link
        for link in links.links
    )
    return replace(links, links=tuple(lifted))


def _bandwidth(links: Links, majority: float) -> _Figures:
    return _Figures(
        name="bytes_per_second",
        by_direction={
            (link.source, link.target): link.bytes_per_second for link in links.links if link.bytes_per_second
        },
        majority=majority,
        worst=min,
        words=lambda speed: (
            f"{_mbit(speed):.0f} Mbit/s, {speed / majority:.0%} of the job's median of {_mbit(majority):.0f} Mbit/s"
        ),
    )


def _latency(links: Links, majority: float) -> _Figures:
    return _Figures(
        name="latency_seconds",
        by_direction={(link.source, link.target): link.latency_seconds for link in links.links if link.latency_seconds},
        majority=majority,
        worst=max,
        words=lambda seconds: (
            f"{seconds * 1e3:.3g} ms latency, {seconds / majority:.0f} times the job's median of {majority * 1e3:.2g} ms"
        ),
    )


def _findings(links: Links, accused: LinkFaults, figures: _Figures) -> Iterator[Finding]:
    values = figures.by_direction
    for way, nodes in (("", accused.nodes), ("inbound ", accused.ingress), ("outbound ", accused.egress)):
        for node in nodes:
            own = [
                value
                for (source, target), value in values.items()
                if (source == node and way != "inbound ") or (target == node and way != "outbound ")
            ]
            yield _finding(f"{links.name(node)} has {way}", (node,), median(own), links, figures)
    for one, other in accused.blocks:
        across = [value for ends, value in values.items() if {*ends} & {*one} and {*ends} & {*other}]
        sides = [", ".join(links.name(node) for node in side) for side in (one, other)]
        yield _finding(f"between {sides[0]} and {sides[1]}: ", (*one, *other), median(across), links, figures)
    for pair in sorted({(min(ends), max(ends)) for ends in accused.links}):
        worst = figures.worst(values[ends] for ends in (pair, pair[::-1]) if ends in accused.links)
        yield _finding(f"{links.name(pair[0])} and {links.name(pair[1])} have ", pair, worst, links, figures)


def _finding(what: str, nodes: tuple[int, ...], value: float, links: Links, figures: _Figures) -> Finding:
    return RULE.finding(
        f"{what}{figures.words(value)}",
        ranks=links.ranks(nodes),
        hosts=[links.name(node) for node in nodes],
        figure=figures.name,
        value=value,
        median=figures.majority,
    )


def _mbit(bytes_per_second: float) -> float:
    return bytes_per_second * 8e-6
