"""Several hosts have one address, and a library may give it to its peers as its own."""

from collections.abc import Iterator

from ddpdoctor.analysis.network.addresses import address_of
from ddpdoctor.analysis.network.socket_interface import GLOO, NCCL, gloo_choice, nccl_choice, nccl_default
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.network import Interface, Network
from ddpdoctor.messages.skipped import ONE_HOST
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck

RULE = Rule(
    code="DDP170",
    name="address-on-several-hosts",
    summary="several hosts have the same address on an interface that collectives may use",
    severity=Severity.WARN,
    remedy="exclude that interface: `export NCCL_SOCKET_IFNAME=^docker,lo,br-`, and set GLOO_SOCKET_IFNAME to the "
    "interface that reaches the other hosts",
    explains=("DDP212", "DDP214", "DDP215"),
    background=True,
)


def check(network: PerRank[Network], environment: PerRank[Environment] | None) -> Iterator[Finding]:
    """One finding for each address that several hosts have and that gloo or NCCL would take; docker0 alone is harmless.

    It fails where gloo takes it, since gloo uses this one address; NCCL has others, so that it is a warning there.
    """
    hosts = network.hosts()
    if len(hosts) < 2:
        raise SkipCheck(ONE_HOST)
    variables = {each.host: each.value.variables for each in environment.hosts()} if environment else {}
    by_gloo: dict[str, list[str]] = {}
    by_nccl: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for each in hosts:
        chosen = variables.get(each.host, {})
        for address in _gloo_addresses(each.value, chosen.get(GLOO)):
            by_gloo.setdefault(address, []).append(each.host)
        interfaces = nccl_choice(chosen[NCCL], each.value) if chosen.get(NCCL) else nccl_default(each.value)
        for interface in interfaces:
            for address in _addresses(interface):
                by_nccl.setdefault(address, []).append(each.host)
                names[address] = interface.name
    for address in sorted(by_gloo.keys() | by_nccl.keys()):
        gloo, nccl = by_gloo.get(address, []), by_nccl.get(address, [])
        sharing = gloo if len(gloo) > 1 else nccl
        if len(sharing) > 1:
            library = "gloo" if len(gloo) > 1 else "NCCL"
            where = names.get(address) or _interface_name(hosts[0].value, address)
            yield RULE.finding(
                f"{', '.join(sharing)} all have {address} on {where}, and {library} would use it",
                hosts=sharing,
                severity=Severity.FAIL if len(gloo) > 1 else Severity.WARN,
                address=address,
            )


def _gloo_addresses(network: Network, value: str | None) -> tuple[str, ...]:
    if value:
        return tuple(address for interface in gloo_choice(value, network).found for address in _addresses(interface))
    return tuple(address for address in network.hostname_addresses[:1] if _counts(address))


def _addresses(interface: Interface) -> tuple[str, ...]:
    plain = (address.partition("/")[0] for address in interface.addresses)
    return tuple(address for address in plain if _counts(address))


def _counts(address: str) -> bool:
    parsed = address_of(address)
    return parsed is not None and not parsed.is_loopback and not parsed.is_link_local


def _interface_name(network: Network, address: str) -> str:
    interface = network.interface_of(address)
    return interface.name if interface is not None else "an interface"
