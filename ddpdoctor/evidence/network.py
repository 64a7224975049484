"""The network as one host sees it: names, interfaces, the way to the master, InfiniBand ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One network interface."""

    name: str
    """Such as `eth0`."""
    up: bool
    """Whether it is up."""
    loopback: bool = False
    """Whether it is the loopback interface."""
    virtual: bool = False
    """Whether it is a bridge, a veth pair or a tunnel: nothing that leaves the host by itself."""
    addresses: tuple[str, ...] = ()
    """As `IP/prefix`."""
    mtu: int | None = None
    """The largest packet in bytes."""
    speed_mbit: int | None = None
    """Megabits per second; None where the driver reports none."""
    duplex: Literal["full", "half"] | None = None
    """None where the driver reports none."""
    packets: int = 0
    """Packets received and sent."""
    errors: int = 0
    """Packets that had errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A host's own name and its interfaces."""

    hostname: str
    """The host's own name."""
    hostname_addresses: tuple[str, ...]
    """What it resolves to; gloo takes the first address."""
    interfaces: tuple[Interface, ...]
    """In the order of the kernel."""
    ephemeral_ports: tuple[int, int] | None = None
    """The range from which the kernel gives ports to outgoing connections."""
    reserved_ports: tuple[tuple[int, int], ...] = ()
    """The ranges that the kernel leaves out of it."""

    def interface_of(self, address: str) -> Interface | None:
        """The interface that has `address`, or None."""
        for interface in self.interfaces:
            if any(own.partition("/")[0] == address for own in interface.addresses):
                return interface
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOwner:
    """Who listens on a port."""

    pid: int | None
    """The process id; None where another user's process may not be seen."""
    command: str | None
    """The command line; None where it may not be seen."""
    since: float | None = None
    """When the process began, in seconds since the epoch."""
    ours: bool = False
    """Whether it is this process or one of its ancestors, such as torchrun's agent with its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """MASTER_ADDR and MASTER_PORT as one rank sees them."""

    addr: str
    """MASTER_ADDR: a name or an IP address."""
    port: int | None
    """MASTER_PORT, None where it is no port."""
    addresses: tuple[str, ...] = ()
    """What the name resolves to."""
    error: str | None = None
    """Why it does not resolve."""
    local: bool = False
    """Whether one of the addresses is this host's."""
    source: str | None = None
    """The address from which packets to it leave; None without a route."""
    owner: PortOwner | None = None
    """Who listens on the port on this host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandPort:
    """One port of an InfiniBand or RoCE adapter, in the words of the kernel."""

    device: str
    """Such as `mlx5_0`."""
    port: int
    """The number of the port."""
    state: str
    """Such as `4: ACTIVE`."""
    physical_state: str
    """Such as `5: LinkUp`."""
    rate: str
    """Such as `400 Gb/sec (4X NDR)`."""
    link_layer: str
    """`InfiniBand` or `Ethernet` (RoCE)."""

    @property
    def active(self) -> bool:
        """Whether traffic can flow."""
        return self.state.endswith("ACTIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Infiniband:
    """The InfiniBand and RoCE ports of a host."""

    ports: tuple[InfinibandPort, ...]
    """Empty where it has no such adapter."""


KINDS = {
    Network: "network interfaces",
    Master: "resolved MASTER_ADDR",
    Infiniband: "InfiniBand ports",
}
