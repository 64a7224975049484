"""Names, interfaces and ports of this host, the way to the master, and InfiniBand ports. Nothing is sent."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import psutil

from ddpdoctor.analysis.network.socket_interface import is_loopback
from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.network import Infiniband, InfinibandPort, Interface, Master, Network
from ddpdoctor.host.dns import resolve
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.host.ports import listeners

if TYPE_CHECKING:
    from psutil._ntuples import snicaddr, snicstats

DISCARD_PORT = 9  # any port serves: connecting a UDP socket only asks the routing table


def collect(access: HostAccess) -> Iterator[Network | Master | Infiniband | Missing]:
    """The network as this process sees it."""
    network = this_network(access)
    yield network
    yield _infiniband(access)
    yield _master(access, network)


def this_network(access: HostAccess) -> Network:
    """This host's name, interfaces and port ranges."""
    hostname = socket.gethostname()
    return Network(
        hostname=hostname,
        hostname_addresses=resolve(hostname).addresses,
        interfaces=_interfaces(access),
        ephemeral_ports=_ephemeral_ports(access),
        reserved_ports=_reserved_ports(access),
    )


def _interfaces(access: HostAccess) -> tuple[Interface, ...]:
    addresses, states = psutil.net_if_addrs(), psutil.net_if_stats()
    return tuple(_interface(access, name, addresses.get(name, ()), states) for name in sorted(addresses | states))


def _interface(
    access: HostAccess, name: str, addresses: Sequence[snicaddr], states: Mapping[str, snicstats]
) -> Interface:
    folder = f"/sys/class/net/{name}"
    state = states.get(name)
    speed = _number(access.text(f"{folder}/speed"))
    duplex = access.text(f"{folder}/duplex")
    flags = state.flags.split(",") if state else []
    return Interface(
        name=name,
        up=bool(state and state.isup),
        loopback="loopback" in flags,
        virtual=not access.path(f"{folder}/device").exists(),
        addresses=tuple(_with_prefix(each) for each in addresses if each.family in {socket.AF_INET, socket.AF_INET6}),
        mtu=state.mtu if state else None,
        speed_mbit=speed if speed and speed > 0 else None,
        duplex=_duplex(duplex),
        packets=_counter(access, folder, "rx_packets", "tx_packets"),
        errors=_counter(access, folder, "rx_errors", "tx_errors"),
    )


def _with_prefix(address: snicaddr) -> str:
    plain = address.address.partition("%")[0]
    if not address.netmask:
        return plain
    bits = sum(byte.bit_count() for byte in ipaddress.ip_address(address.netmask.partition("/")[0]).packed)
    return f"{plain}/{bits}"


def _duplex(word: str | None) -> Literal["full", "half"] | None:
    return "half" if word == "half" else "full" if word == "full" else None


def _counter(access: HostAccess, folder: str, *names: str) -> int:
    return sum(_number(access.text(f"{folder}/statistics/{name}")) or 0 for name in names)


def _ephemeral_ports(access: HostAccess) -> tuple[int, int] | None:
    words = (access.text("/proc/sys/net/ipv4/ip_local_port_range") or "").split()
    return (int(words[0]), int(words[1])) if len(words) == 2 else None


def _reserved_ports(access: HostAccess) -> tuple[tuple[int, int], ...]:
    text = access.text("/proc/sys/net/ipv4/ip_local_reserved_ports") or ""
    spans = (span.partition("-") for span in text.split(",") if span)
    return tuple((int(low), int(high or low)) for low, _, high in spans)


def _master(access: HostAccess, network: Network) -> Master | Missing:
    addr = access.environ.get("MASTER_ADDR")
    if not addr:
        return Missing(kind="Master", reason="MASTER_ADDR is not set")
    port = _number(access.environ.get("MASTER_PORT"))
    resolved = resolve(addr)
    local = any(network.interface_of(address) or is_loopback(address) for address in resolved.addresses)
    owners = listeners(port) if port is not None and local else ()
    return Master(
        addr=addr,
        port=port,
        addresses=resolved.addresses,
        error=resolved.error,
        local=local,
        source=_source(resolved.addresses),
        owner=owners[0] if owners else None,
    )


def _source(addresses: Sequence[str]) -> str | None:
    """The address from which packets to the first reachable of `addresses` would leave; none is sent."""
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, DISCARD_PORT))
            return str(probe.getsockname()[0])
    return None


def _infiniband(access: HostAccess) -> Infiniband:
    ports = []
    for folder in sorted(access.path("/sys/class/infiniband").glob("*/ports/*")):
        if folder.name.isdigit():
            device = folder.parent.parent.name
            state, physical, rate, layer = (
                (access.text(f"/sys/class/infiniband/{device}/ports/{folder.name}/{name}") or "")
                for name in ("state", "phys_state", "rate", "link_layer")
            )
            ports.append(
                InfinibandPort(
                    device=device,
                    port=int(folder.name),
                    state=re.sub(r"^\d+: ", "", state),
                    physical_state=re.sub(r"^\d+: ", "", physical),
                    rate=rate,
                    link_layer=layer,
                )
            )
    return Infiniband(ports=tuple(ports))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text.strip()) else None
