"""Packets to the master leave through another interface than the one chosen for collectives."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import GLOO, gloo_choice
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Master, Network
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP165",
    name="route-to-master-elsewhere",
    summary="the route to MASTER_ADDR does not use the selected interface",
    severity=Severity.WARN,
    remedy="select the interface that `ip route get MASTER_ADDR` prints, or set MASTER_ADDR to an address in the "
    "selected network",
    background=True,
)


def check(environment: PerRank[Environment], network: PerRank[Network], master: PerRank[Master]) -> Iterator[Finding]:
    """One finding for each host whose GLOO_SOCKET_IFNAME is not the interface of the route to the master."""
    networks = {entry.host: entry.value for entry in network}
    masters = {entry.host: entry.value for entry in master}
    looked = False
    for each in environment.hosts():
        value, here, toward = each.value.variables.get(GLOO), networks.get(each.host), masters.get(each.host)
        if not value or here is None or toward is None or toward.source is None or toward.local:
            continue
        looked = True
        chosen = [interface.name for interface in gloo_choice(value, here).found]
        used = here.interface_of(toward.source)
        if chosen and used is not None and used.name not in chosen:
            yield RULE.finding(
                f"{each.host} reaches MASTER_ADDR={toward.addr} through {used.name} ({toward.source}), "
                f"but {GLOO}={value} selects another interface",
                hosts=(each.host,),
                route=used.name,
                chosen=chosen,
            )
    if not looked:
        raise SkipCheck(f"no host sets {GLOO} and has a route to a master on another host")
