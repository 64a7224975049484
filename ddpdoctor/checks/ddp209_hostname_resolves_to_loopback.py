"""A host's own name resolves to loopback, so that gloo tells its peers to connect to themselves."""

from collections.abc import Iterator

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Network
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP209",
    name="hostname-resolves-to-loopback",
    summary="the host's own name resolves to 127.x, which gloo gives to its peers",
    severity=Severity.FAIL,
    remedy="put the host's real address before 127.x for its name in /etc/hosts, or export GLOO_SOCKET_IFNAME=INTERFACE",
    explains=("DDP212", "DDP214"),
)


def check(network: PerRank[Network], environment: PerRank[Environment] | None) -> Iterator[Finding]:
    """One finding for each such host, unless GLOO_SOCKET_IFNAME is set there.

    It fails a job on several hosts and is harmless on one. A host that no launcher started us on gets a warning: the job
    that comes may have several.
    """
    chosen = {entry.host for entry in environment or () if entry.value.variables.get("GLOO_SOCKET_IFNAME")}
    hosts = network.hosts()
    severity = Severity.FAIL if len(hosts) > 1 else Severity.INFO if network.launched else Severity.WARN
    for each in hosts:
        addresses = each.value.hostname_addresses
        if each.host not in chosen and addresses and _loopback(addresses[0]):
            only = "harmless on one host, fatal on several" if len(hosts) == 1 else "its peers cannot reach that"
            yield RULE.finding(
                f"{each.value.hostname} resolves to {addresses[0]}, which gloo gives to its peers: {only}",
                hosts=(each.host,),
                ranks=each.ranks if len(hosts) > 1 else (),
                severity=severity,
                address=addresses[0],
            )


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
