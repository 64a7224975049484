"""MASTER_PORT is open, and the ports that collectives choose are not."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.suspects import broken
from ddpdoctor.evidence.links import Links
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP215",
    name="only-master-port-open",
    summary="a firewall allows MASTER_PORT but blocks the other ports",
    severity=Severity.FAIL,
    shown_by="the rendezvous works and every further connection fails: `ddpdoctor net` on all nodes",
    remedy="open all TCP ports between the nodes of a job: gloo and NCCL listen on ports that the kernel chooses"
    " (`sysctl net.ipv4.ip_local_port_range` prints the range; narrow it and open that)",
    explains=("DDP212", "DDP214"),
)

BLOCKED = frozenset({"filtered", "refused", "reset"})


def check(links: Links) -> Iterator[Finding]:
    """One finding where all nodes, or single ones, met through MASTER_PORT and admit nobody on other ports."""
    if not links.links:
        raise SkipCheck("fewer than two nodes were connected")
    numbers = {node.node for node in links.nodes}
    closed = {
        target
        for target in numbers
        if (own := [link for link in links.links if link.target == target])
        and all(link.outcome in BLOCKED for link in own)
    }
    found = broken(links)
    if closed == numbers:
        how = sorted({link.outcome for link in links.links})
        yield RULE.finding(
            f"all {len(numbers)} nodes joined through MASTER_PORT, but no connection to another port succeeds "
            f"({', '.join(how)})",
            ranks=sorted(numbers),
            hosts=[links.name(node) for node in sorted(numbers)],
        )
        return
    for node in sorted(closed & {*found.ingress}):
        how = sorted({link.outcome for link in links.links if link.target == node})
        yield RULE.finding(
            f"{links.name(node)} can connect out, but accepts inbound connections on MASTER_PORT only ({', '.join(how)})",
            ranks=(node,),
            hosts=(links.name(node),),
        )
