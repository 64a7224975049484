"""Nothing gets through from one node to another, while both talk to the rest."""

from collections.abc import Iterator

from ddpdoctor.analysis.accused import broken
from ddpdoctor.evidence.links import Link, Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP212",
    name="link-broken",
    summary="a node cannot reach another one",
    severity=Severity.FAIL,
    remedy="look at routes and firewalls between the two (`ip route get ADDRESS` on the one, `iptables -nvL` on the other), or"
    " leave one of them out",
)


def check(links: Links) -> Iterator[Finding]:
    """One finding for each broken pair with its directions, and one for each two groups that a switch should join."""
    if not links.links:
        raise SkipCheck("fewer than two nodes talked to each other")
    found = broken(links)
    by_direction = {(link.source, link.target): link for link in links.links}
    for one, other in found.blocks:
        sides = [", ".join(links.name(node) for node in side) for side in (one, other)]
        yield RULE.finding(
            f"nothing gets through between {sides[0]} and {sides[1]}, and each side talks within itself",
            ranks=(*one, *other),
            hosts=[links.name(node) for node in (*one, *other)],
            remedy="look at the switch or route that joins the two groups",
        )
    for pair in sorted({(min(direction), max(direction)) for direction in found.links}):
        directions = [direction for direction in (pair, pair[::-1]) if direction in found.links]
        yield _pair(links, pair, [by_direction[direction] for direction in directions])


def _pair(links: Links, pair: tuple[int, int], failed: list[Link]) -> Finding:
    first = failed[0]
    arrow = "and" if len(failed) == 2 else "to"
    ends = (first.source, first.target) if len(failed) == 1 else pair
    way = "in both directions" if len(failed) == 2 else "in this direction only"
    return RULE.finding(
        f"{links.name(ends[0])} {arrow} {links.name(ends[1])}: {first.outcome.replace('-', ' ')} {way} ({first.detail})",
        ranks=pair,
        hosts=[links.name(node) for node in ends],
        outcome=first.outcome,
        directions=[[link.source, link.target] for link in failed],
    )
