"""A host's own name leads to loopback or to no address of it, so that gloo tells its peers to connect to themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ddpdoctor.analysis.network.socket_interface import GLOO, dials, gloo_address, is_loopback
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Network
from ddpdoctor.evidence.torch_build import TorchBuild
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP209",
    name="hostname-resolves-to-loopback",
    summary="the host name resolves to 127.x, which gloo advertises to its peers",
    severity=Severity.FAIL,
    shown_by="`getent hosts $(hostname)` answers 127.x on a node",
    remedy="list the host's real address before 127.x for its name in /etc/hosts, or export GLOO_SOCKET_IFNAME=INTERFACE",
    explains=("DDP212", "DDP214"),
)


def check(
    network: PerRank[Network], environment: PerRank[Environment] | None, torches: PerRank[TorchBuild] | None
) -> Iterator[Finding]:
    """One finding for each such host, unless GLOO_SOCKET_IFNAME is set there.

    A host that no launcher started us on gets a warning: the job that comes may have several.
    """
    hosts = network.hosts()
    chosen = {each.host: each.value.variables.get(GLOO, "") for each in environment.hosts()} if environment else {}
    addresses = {each.host: gloo_address(each.value, chosen.get(each.host, "")) for each in hosts}
    gpus = bool(torches) and all(each.value.cuda_devices for each in torches or ())
    for each in hosts:
        if not chosen.get(each.host) and is_loopback(addresses[each.host]):
            severity, so = _outcome(each.host, addresses, gpus=gpus, launched=network.launched)
            yield RULE.finding(
                f"{_what(each.value, addresses[each.host])}, which gloo advertises to its peers: {so}",
                hosts=(each.host,),
                ranks=each.ranks if len(hosts) > 1 else (),
                severity=severity,
                address=addresses[each.host],
            )


def _what(network: Network, address: str) -> str:
    if address in network.hostname_addresses:
        return f"{network.hostname} resolves to {address}"
    resolved = " and ".join(network.hostname_addresses)
    target = f"to {resolved}, which the host does not have" if resolved else "to nothing"
    return f"{network.hostname} resolves {target}; gloo falls back to {address}"


def _outcome(host: str, addresses: Mapping[str, str], *, gpus: bool, launched: bool) -> tuple[Severity, str]:
    """How bad it is, and why: of two peers one dials, and only a peer that dials such a host ends up at itself."""
    peers = [address for other, address in addresses.items() if other != host]
    if not peers:
        return (Severity.INFO if launched else Severity.WARN), "harmless on one host, fatal on several"
    if not any(dials(address, addresses[host]) for address in peers):
        return (
            Severity.WARN,
            "this host connects to its peers, whose addresses are lower; a peer with a higher address cannot reach it",
        )
    if gpus:
        return Severity.WARN, "they cannot reach it; NCCL does not need it, but a gloo group fails"
    return Severity.FAIL, "they cannot reach it"
