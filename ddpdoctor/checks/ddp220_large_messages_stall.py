"""Small messages get through and large ones do not: packets above some size are dropped without a word."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.suspects import stalling
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP220",
    name="large-messages-stall",
    summary="small messages pass, but messages of 64 KiB stall",
    severity=Severity.FAIL,
    shown_by="small all_reduces work and large ones hang: `ddpdoctor net` shows where messages stop; often the MTU",
    remedy="compare the MTU along the path (`ip link`, `tracepath ADDRESS`), lower it on the interface, or set"
    " `sysctl net.ipv4.tcp_mtu_probing=1`",
)


def check(links: Links) -> Iterator[Finding]:
    """One finding for each node or pair whose small echo passes and whose 64 KiB echo or stream stalls."""
    if not links.links:
        raise SkipCheck("fewer than two nodes were connected")
    found = stalling(links)
    culprits: list[tuple[int, ...]] = [(node,) for node in (*found.nodes, *found.ingress, *found.egress)]
    culprits += sorted({(min(ends), max(ends)) for ends in found.links})
    culprits += [(*one, *other) for one, other in found.blocks]
    for nodes in culprits:
        stalls = [
            link for link in links.links if link.outcome == "large-stalls" and {link.source, link.target} & {*nodes}
        ]
        detail = max(stalls, key=lambda link: len({link.source, link.target} & {*nodes})).detail
        names = " and ".join(links.name(node) for node in nodes)
        yield RULE.finding(
            f"{names}: 64 bytes pass, but large messages stall ({detail})",
            ranks=nodes,
            hosts=[links.name(node) for node in nodes],
        )
