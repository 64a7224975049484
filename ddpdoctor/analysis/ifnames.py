"""Which interfaces GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME choose: two variables, two languages."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.network import Interface, Network

GLOO = "GLOO_SOCKET_IFNAME"
NCCL = "NCCL_SOCKET_IFNAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class GlooChoice:
    """The interfaces that gloo takes, and the words of the value for which it finds no address and gives up."""

    found: tuple[Interface, ...]
    lost: tuple[str, ...]


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
