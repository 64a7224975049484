"""GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose different networks."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import GLOO, NCCL, gloo_choice, nccl_choice
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Network
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP168",
    name="socket-ifnames-disagree",
    summary="gloo and NCCL use different interfaces",
    severity=Severity.WARN,
    remedy="use one network for both: set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME to the same interface",
    background=True,
)


def check(environment: PerRank[Environment], network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each host on which both variables find interfaces and share none."""
    networks = {entry.host: entry.value for entry in network}
    looked = False
    for each in environment.hosts():
        gloo, nccl, here = each.value.variables.get(GLOO), each.value.variables.get(NCCL), networks.get(each.host)
        if not gloo or not nccl or here is None:
            continue
        looked = True
        by_gloo = {interface.name for interface in gloo_choice(gloo, here).found}
        by_nccl = {interface.name for interface in nccl_choice(nccl, here)}
        if by_gloo and by_nccl and not by_gloo & by_nccl:
            yield RULE.finding(
                f"on {each.host} gloo uses {', '.join(sorted(by_gloo))} ({GLOO}={gloo}) and NCCL uses "
                f"{', '.join(sorted(by_nccl))} ({NCCL}={nccl})",
                hosts=(each.host,),
                gloo=sorted(by_gloo),
                nccl=sorted(by_nccl),
            )
    if not looked:
        raise SkipCheck(f"no host sets both {GLOO} and {NCCL}")
