"""A node or a link is far slower than the others of the job."""

from collections.abc import Iterator
from statistics import median

from ddpdoctor.analysis.accused import slow
from ddpdoctor.analysis.speeds import median_speed
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP213",
    name="link-slow",
    summary="a node or link has a fraction of the job's median bandwidth",
    severity=Severity.WARN,
    remedy="look at the link's negotiated speed (`ethtool INTERFACE`), its errors (`ethtool -S`), and what else uses it; leave"
    " the node out until then",
)

OF_STATED = 0.3  # one TCP stream reaches 0.94 of a link up to 10 Gbit/s; above, one stream says nothing of the link
ONE_STREAM_MBIT = 10_000


def check(links: Links) -> Iterator[Finding]:
    """One finding for each slow node, group or link against the median; else one for a job slower than its interfaces say."""
    usual = median_speed(links)
    if usual is None:
        raise SkipCheck("fewer than three directions were measured: there is no median")
    found = slow(links)
    speeds = {(link.source, link.target): link.bytes_per_second for link in links.links if link.bytes_per_second}
    for way, nodes in (("", found.nodes), ("inbound ", found.deaf), ("outbound ", found.mute)):
        for node in nodes:
            own = [
                speed
                for (source, target), speed in speeds.items()
                if (source == node and way != "inbound ") or (target == node and way != "outbound ")
            ]
            yield _finding(f"{links.name(node)} has {way}", (node,), median(own), usual, links)
    for one, other in found.blocks:
        across = [speed for ends, speed in speeds.items() if {*ends} & {*one} and {*ends} & {*other}]
        sides = [", ".join(links.name(node) for node in side) for side in (one, other)]
        yield _finding(f"between {sides[0]} and {sides[1]} there are ", (*one, *other), median(across), usual, links)
    for pair in sorted({(min(ends), max(ends)) for ends in found.links}):
        worst = min(speeds[ends] for ends in (pair, pair[::-1]) if ends in found.links)
        yield _finding(f"{links.name(pair[0])} and {links.name(pair[1])} have ", pair, worst, usual, links)
    if found.nodes or found.blocks or found.links or found.deaf or found.mute:
        return
    stated = min((node.speed_mbit for node in links.nodes if node.speed_mbit), default=None)
    if stated is not None and stated <= ONE_STREAM_MBIT and usual * 8e-6 < OF_STATED * stated:
        yield RULE.finding(
            f"the median stream has {usual * 8e-6:.0f} Mbit/s, and the interfaces state {stated}",
            median_bytes_per_second=usual,
            stated_mbit=stated,
        )


def _finding(what: str, nodes: tuple[int, ...], speed: float, usual: float, links: Links) -> Finding:
    return RULE.finding(
        f"{what}{speed * 8e-6:.0f} Mbit/s, {speed / usual:.0%} of the job's median of {usual * 8e-6:.0f}",
        ranks=nodes,
        hosts=[links.name(node) for node in nodes],
        bytes_per_second=speed,
        median_bytes_per_second=usual,
    )
