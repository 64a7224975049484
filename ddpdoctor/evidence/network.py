"""The network as one host sees it: names, interfaces, the way to the master, InfiniBand ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One network interface. `addresses` are `IP/prefix`; speeds are megabits a second, None where the driver has none.

    `virtual` is True for bridges, veth pairs and tunnels: nothing that leaves the host by itself.
    """

    name: str
    up: bool
    loopback: bool = False
    virtual: bool = False
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    speed_mbit: int | None = None
    duplex: Literal["full", "half"] | None = None
    packets: int = 0
    errors: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A host's own name, what it resolves to (the first address is the one that gloo takes), and its interfaces.

    `ephemeral_ports` is the range from which the kernel gives ports to outgoing connections, without reserved ones.
    """

    hostname: str
    hostname_addresses: tuple[str, ...]
    interfaces: tuple[Interface, ...]
    ephemeral_ports: tuple[int, int] | None = None
    reserved_ports: tuple[tuple[int, int], ...] = ()

    def interface_of(self, address: str) -> Interface | None:
        """The interface that has `address`, or None."""
        for interface in self.interfaces:
            if any(own.partition("/")[0] == address for own in interface.addresses):
                return interface
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOwner:
    """Who listens on a port; `pid` and `command` are None where another user's process may not be seen.

    `ours` is True where it is this process or one of its ancestors, such as torchrun's agent with its store.
    """

    pid: int | None
    command: str | None
    since: float | None = None
    ours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """MASTER_ADDR and MASTER_PORT as one rank sees them.

    `addresses` is what the name resolves to, `error` why it does not. `local` is True where one of them is this host's.
    `source` is the address from which packets to it leave, None without a route. `owner` is who listens on the port here.
    """

    addr: str
    port: int | None
    addresses: tuple[str, ...] = ()
    error: str | None = None
    local: bool = False
    source: str | None = None
    listening: bool = False
    owner: PortOwner | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandPort:
    """One port of an InfiniBand or RoCE adapter, in the words of the kernel: `ACTIVE`, `LinkUp`, `400 Gb/sec (4X NDR)`."""

    device: str
    port: int
    state: str
    physical_state: str
    rate: str
    link_layer: str

    @property
    def active(self) -> bool:
        """Whether traffic can flow."""
        return self.state.endswith("ACTIVE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Infiniband:
    """The InfiniBand and RoCE ports of a host; none where it has no such adapter."""

    ports: tuple[InfinibandPort, ...]


KINDS = (Network, Master, Infiniband)
