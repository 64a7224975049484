"""Which interfaces GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose: two variables, two languages."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.network.addresses import address_of
from ddpdoctor.evidence.network import Interface, Network

GLOO = "GLOO_SOCKET_IFNAME"
NCCL = "NCCL_SOCKET_IFNAME"
FALLBACK = "127.0.0.1"  # what torch takes where the host's own name leads to no address of the host


@dataclass(frozen=True, slots=True, kw_only=True)
class GlooChoice:
    """What gloo takes of the value of GLOO_SOCKET_IFNAME."""

    found: tuple[Interface, ...]
    """The interfaces that have an address, in the order of the value."""
    lost: tuple[str, ...]
    """The names for which gloo finds no address, so that it gives up."""


def gloo_choice(value: str, network: Network) -> GlooChoice:
    """Gloo takes exact names, separated by commas."""
    by_name = {interface.name: interface for interface in network.interfaces if interface.up and interface.addresses}
    words = [word for word in value.split(",") if word]
    return GlooChoice(
        found=tuple(by_name[word] for word in words if word in by_name),
        lost=tuple(word for word in words if word not in by_name),
    )


def gloo_means_nccl_syntax(value: str, network: Network) -> bool:
    """Whether a value that gloo cannot use would choose an interface if NCCL read it: a prefix, `=name` or `^name`."""
    return bool(gloo_choice(value, network).lost) and (
        value.startswith(("=", "^"))
        or any(interface.name not in value.split(",") for interface in nccl_choice(value, network))
    )


def nccl_choice(value: str, network: Network) -> tuple[Interface, ...]:
    """NCCL takes prefixes separated by commas; `=` before them asks for exact names, `^` excludes what matches."""
    exclude = value.startswith("^")
    rest = value.removeprefix("^")
    exact = rest.startswith("=")
    words = [word.partition(":")[0] for word in rest.removeprefix("=").split(",") if word]
    return tuple(
        interface
        for interface in network.interfaces
        if interface.up
        and interface.addresses
        and any(interface.name == word if exact else interface.name.startswith(word) for word in words) != exclude
    )


def nccl_default(network: Network) -> tuple[Interface, ...]:
    """What NCCL takes where no variable says so: every interface that is up except loopback and docker's."""
    return nccl_choice("^docker,lo", network)


def gloo_address(network: Network, ifname: str) -> str:
    """That of the first interface in GLOO_SOCKET_IFNAME, else the first of the host's own name that the host can bind."""
    for interface in gloo_choice(ifname, network).found:
        if interface.addresses:
            return interface.addresses[0].partition("/")[0]
    own = (address for address in network.hostname_addresses if is_loopback(address) or network.interface_of(address))
    return next(own, FALLBACK)


def is_loopback(address: str) -> bool:
    """Whether the address means "this host" on every host."""
    parsed = address_of(address)
    return parsed is not None and parsed.is_loopback


def dials(address: str, peer: str) -> bool:
    """Whether a process at `address` may be the one that connects to `peer`: of two, the greater address does, byte by byte.

    Two that have one address decide by port. Addresses of two families are an error to gloo, whoever dials.
    """
    found = address_of(address), address_of(peer)
    own, theirs = (each.packed if each is not None else b"" for each in found)
    return len(own) != len(theirs) or own >= theirs
