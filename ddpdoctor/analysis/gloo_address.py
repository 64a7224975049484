"""The address that gloo listens on and gives to its peers, and which of two peers dials the other."""

from __future__ import annotations

from ipaddress import ip_address

from ddpdoctor.analysis.ifnames import gloo_choice
from ddpdoctor.evidence.network import Network

FALLBACK = "127.0.0.1"  # what torch takes where the host's own name leads to no address of the host


def gloo_address(network: Network, ifname: str) -> str:
    """That of the first interface in GLOO_SOCKET_IFNAME, else the first of the host's own name that the host can bind."""
    for interface in gloo_choice(ifname, network).found:
        return interface.addresses[0].partition("/")[0]
    own = (address for address in network.hostname_addresses if is_loopback(address) or network.interface_of(address))
    return next(own, FALLBACK)


def is_loopback(address: str) -> bool:
    """Whether the address means "this host" on every host."""
    return ip_address(address.partition("%")[0]).is_loopback


def dials(address: str, peer: str) -> bool:
    """Whether a process at `address` may be the one that connects to `peer`: of two, the greater address does, byte by byte.

    Two that have one address decide by port. Addresses of two families are an error to gloo, whoever dials.
    """
    own, theirs = (ip_address(each.partition("%")[0]).packed for each in (address, peer))
    return len(own) != len(theirs) or own >= theirs
