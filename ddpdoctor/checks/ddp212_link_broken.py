"""Nothing gets through from one node to another, while both talk to the rest."""

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.network.fault_localization import attribute
from ddpdoctor.analysis.network.suspects import broken
from ddpdoctor.evidence.links import Groups, Links, NetGroup, NodeLink
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP212",
    name="link-broken",
    summary="a node cannot reach another one",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor net` shows one link between two nodes that carries nothing, and others that work",
    remedy="check routes and firewalls between the two (`ip route get ADDRESS` on one, `iptables -nvL` on the other), "
    "or exclude one of them",
    explains=(
        "DDP229",
        "DDP401",
    ),
    errors=(
        ErrorPattern(
            regex=r"gloo/transport/tcp/\w+\.cc:\d+\] connect \[(?P<addr>[^\]]+)\]:(?P<port>\d{1,18}): No route to host",
            sentence="no route leads to {addr} port {port}{on}",
        ),
    ),
)


def check(links: Links, groups: Groups | None) -> Iterator[Finding]:
    """One finding for each broken pair with its directions, and one for each two groups that a switch should join.

    Where TCP passes everywhere, one for each node, pair or whole job that forms no gloo group.
    """
    if not links.links:
        raise SkipCheck("fewer than two nodes were connected")
    found = broken(links)
    by_direction = {(link.source, link.target): link for link in links.links}
    for one, other in found.blocks:
        sides = [", ".join(links.name(node) for node in side) for side in (one, other)]
        yield RULE.finding(
            f"no connection between {sides[0]} and {sides[1]} works, but each side is connected within itself",
            ranks=(*one, *other),
            hosts=[links.name(node) for node in (*one, *other)],
            remedy="check the switch or route between the two groups",
        )
    for pair in sorted({(min(direction), max(direction)) for direction in found.links}):
        directions = [direction for direction in (pair, pair[::-1]) if direction in found.links]
        yield _pair(links, pair, [by_direction[direction] for direction in directions])
    if groups is not None:
        yield from _groups(links, groups)


def _pair(links: Links, pair: tuple[int, int], failed: list[NodeLink]) -> Finding:
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


def _groups(links: Links, groups: Groups) -> Iterator[Finding]:
    failed = [group for group in groups.neighbours if not group.works]
    works = {(group.nodes[0], group.nodes[1]): group.works for group in groups.neighbours}
    found = attribute(works | {(b, a): each for (a, b), each in works.items()})
    for node in found.nodes:
        its = [group for group in failed if node in group.nodes]
        others = sorted({other for group in its for other in group.nodes} - {node})
        yield _group(links, (node,), f"{links.name(node)} cannot form a gloo group with {_names(links, others)}", its)
    for pair in sorted({(min(ends), max(ends)) for ends in found.links}):
        its = [group for group in failed if group.nodes == pair]
        yield _group(links, pair, f"{_names(links, pair)} cannot form a gloo group", its)
    for group in groups.everybody:
        if not group.works:
            alone = ", although each pair of neighbours can" if groups.neighbours else ""
            what = f"the {len(group.nodes)} nodes cannot form one gloo group{alone}"
            yield _group(links, () if groups.neighbours else group.nodes, what, [group])


def _group(links: Links, ranks: tuple[int, ...], what: str, failed: Sequence[NetGroup]) -> Finding:
    words = next((words for group in failed for words in group.failed.values()), "it hangs")
    return RULE.finding(
        f"{what}, although TCP connections work ({words})",
        ranks=ranks,
        hosts=[links.name(node) for node in ranks],
        remedy="check which address gloo uses: `getent hosts $(hostname)` on each node, or export GLOO_SOCKET_IFNAME=INTERFACE",
        hung=sorted({node for group in failed for node in group.hung}),
        said={links.name(node): words for group in failed for node, words in group.failed.items()},
    )


def _names(links: Links, nodes: Sequence[int]) -> str:
    return " and ".join(links.name(node) for node in nodes)
