"""Hosts with several networks share none, so that a library may choose one that its peers cannot reach."""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from ddpdoctor.analysis.network.addresses import interface_of
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.network import Network
from ddpdoctor.messages.skipped import ONE_HOST
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP169",
    name="no-common-subnet",
    summary="no subnet is common to all hosts, and some hosts have several subnets",
    severity=Severity.WARN,
    remedy="set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME on each host to the interface that reaches the others",
    background=True,
)


def check(network: PerRank[Network]) -> Iterator[Finding]:
    """One finding where no subnet joins all hosts; none where every host has a single way out, as in routed fabrics."""
    hosts = {each.host: _subnets(each.value) for each in network.hosts()}
    if len(hosts) < 2:
        raise SkipCheck(ONE_HOST)
    if not all(hosts.values()):
        raise SkipCheck("a host has no interface that reaches other hosts")
    if not set.intersection(*hosts.values()) and any(len(subnets) > 1 for subnets in hosts.values()):
        details = tuple(f"{host}: {', '.join(sorted(map(str, subnets)))}" for host, subnets in hosts.items())
        yield RULE.finding(f"no subnet is common to the {len(hosts)} hosts", hosts=tuple(hosts), details=details)


def _subnets(network: Network) -> set[IPv4Network | IPv6Network]:
    """The subnets of interfaces that lead out of the host; /32 and link-local addresses say nothing of neighbours."""
    found = set()
    for interface in network.interfaces:
        if interface.up and not interface.loopback and not interface.virtual:
            for address in map(interface_of, interface.addresses):
                if address is not None and not address.is_link_local and address.network.num_addresses > 1:
                    found.add(address.network)
    return found
