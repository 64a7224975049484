"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names no interface that is up."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.socket_interface import GLOO, NCCL, gloo_choice, gloo_means_nccl_syntax, nccl_choice
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Network
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP210",
    name="socket-ifname-matches-nothing",
    summary="GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME matches no interface that is up",
    severity=Severity.FAIL,
    shown_by="`ip -br link` lists no interface of the name in GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME that is up",
    remedy="name an interface that exists and is up on that host (`ip -br addr`); if names differ between hosts, set "
    "the variable per host",
    explains=(
        "DDP212",
        "DDP214",
        "DDP229",
        "DDP401",
        "DDP418",
    ),
    errors=(
        ErrorPattern(
            regex=r"Unable to find address for: (?P<name>\S+)",
            sentence="GLOO_SOCKET_IFNAME={name} matches no interface that is up{on}",
        ),
        ErrorPattern(
            regex=r"connecting to address\s+with family \d+ is neither AF_INET",
            sentence="NCCL has no address of its own{on}: the interface that NCCL_SOCKET_IFNAME names does not exist or is down",
        ),
    ),
)


def check(environment: PerRank[Environment], network: PerRank[Network]) -> Iterator[Finding]:
    """One finding for each host and variable, with the interfaces that are up there."""
    networks = {entry.host: entry.value for entry in network}
    for each in environment.hosts():
        here = networks.get(each.host)
        if here is None:
            continue
        gloo, nccl = each.value.variables.get(GLOO), each.value.variables.get(NCCL)
        if gloo and not gloo_choice(gloo, here).found and not gloo_means_nccl_syntax(gloo, here):
            yield _nothing(GLOO, gloo, each.host, each.ranks, here)
        if nccl and not nccl_choice(nccl, here):
            yield _nothing(NCCL, nccl, each.host, each.ranks, here)


def _nothing(variable: str, value: str, host: str, ranks: tuple[int, ...], network: Network) -> Finding:
    up = [interface.name for interface in network.interfaces if interface.up]
    who = f" ({group_ranks(ranks)})" if ranks else ""
    return RULE.finding(
        f"{variable}={value} matches no interface that is up on {host}{who}; interfaces that are up: {', '.join(up) or 'none'}",
        ranks=ranks,
        hosts=(host,),
        variable=variable,
        value=value,
        up=up,
    )
