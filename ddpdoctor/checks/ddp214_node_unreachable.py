"""A node that nobody can talk to, or that fell silent in the middle."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.suspects import broken
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP214",
    name="node-unreachable",
    summary="every link of a node is broken",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor net` shows no working link of one node",
    remedy="exclude the node (`srun --exclude NODE`) and check its interface, cable, routes and firewall",
    explains=("DDP212",),
)


def check(links: Links) -> Iterator[Finding]:
    """One finding for each node whose links fail in both directions, and for each that joined and then fell silent."""
    if not links.links:
        raise SkipCheck("fewer than two nodes were connected")
    for node in sorted({*broken(links).nodes} - {*links.lost}):
        own = [link for link in links.links if node in (link.source, link.target)]
        failed = [link for link in own if link.outcome != "ok"]
        kinds = sorted({link.outcome.replace("-", " ") for link in failed})
        address = next(each.address for each in links.nodes if each.node == node)
        yield RULE.finding(
            f"{links.name(node)} ({address}): {len(failed)} of {len(own)} directions to and from it fail ({', '.join(kinds)})",
            ranks=(node,),
            hosts=(links.name(node),),
            failed=len(failed),
            tried=len(own),
        )
    for node in links.lost:
        yield RULE.finding(
            f"{links.name(node)} joined, then stopped responding during the test rounds",
            ranks=(node,),
            hosts=(links.name(node),),
            remedy="find out why the process on that node ended: out of memory, a lost interface, its time limit",
        )
