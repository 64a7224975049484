"""GLOO_SOCKET_IFNAME holds NCCL's syntax, which gloo does not know."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import GLOO, gloo_means_nccl_syntax, nccl_choice
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Network
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP211",
    name="socket-ifname-wrong-syntax",
    summary="GLOO_SOCKET_IFNAME contains a prefix, `=` or `^`, which only NCCL understands",
    severity=Severity.FAIL,
    shown_by="GLOO_SOCKET_IFNAME contains `=`, `^` or a prefix such as `eth`",
    remedy="give gloo exact names, separated by commas: `export GLOO_SOCKET_IFNAME=eth0`",
    explains=("DDP212", "DDP214"),
)


def check(environment: PerRank[Environment], network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each host on which gloo would abort over the value although NCCL would take it."""
    networks = {entry.host: entry.value for entry in network}
    for each in environment.hosts():
        value, here = each.value.variables.get(GLOO), networks.get(each.host)
        if value and here is not None and gloo_means_nccl_syntax(value, here):
            names = [interface.name for interface in nccl_choice(value, here) if not interface.loopback]
            yield RULE.finding(
                f"{GLOO}={value} on {each.host} uses NCCL's syntax; gloo accepts exact names only",
                ranks=each.ranks,
                hosts=(each.host,),
                remedy=f"export {GLOO}={names[0]}" if len(names) == 1 else RULE.remedy,
                value=value,
                meant=names,
            )
