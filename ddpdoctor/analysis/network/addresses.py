"""Addresses as hosts report them; what is no address has no properties of one."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The address in `text`, its zone left out; None where it is none."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def interface_of(text: str) -> IPv4Interface | IPv6Interface | None:
    """The address with its prefix in `text`; None where it is none."""
    try:
        return ip_interface(text)
    except ValueError:
        return None
