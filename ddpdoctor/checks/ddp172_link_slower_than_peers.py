"""A host's link negotiated a lower speed than those of its peers, or half duplex."""

from collections import Counter
from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.network import Interface, Network
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP172",
    name="link-slower-than-peers",
    summary="an interface negotiated a lower speed than its peers, or half duplex",
    severity=Severity.WARN,
    remedy="check cable, transceiver and switch port; `ethtool INTERFACE` shows what both ends advertise",
    background=True,
)


def check(network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each interface below the speed that most hosts have on the one of its name, or at half duplex."""
    links = [(each.host, link) for each in network.hosts() for link in each.value.interfaces if _is_link(link)]
    if not links:
        raise SkipCheck("no interface states its speed, as in most virtual machines")
    speeds: dict[str, Counter[int]] = {}
    for _, link in links:
        speeds.setdefault(link.name, Counter())[link.speed_mbit or 0] += 1
    for host, link in links:
        majority, hosts_with_it = speeds[link.name].most_common(1)[0]
        if hosts_with_it * 2 > speeds[link.name].total() and (link.speed_mbit or 0) < majority:
            yield RULE.finding(
                f"{link.name} of {host} runs at {link.speed_mbit} Mbit/s; {hosts_with_it} other hosts run at {majority} Mbit/s",
                hosts=(host,),
                speed_mbit=link.speed_mbit,
                usual_mbit=majority,
            )
        elif link.duplex == "half":
            yield RULE.finding(f"{link.name} of {host} runs at half duplex", hosts=(host,), duplex="half")


def _is_link(interface: Interface) -> bool:
    return interface.up and not interface.virtual and interface.speed_mbit is not None
