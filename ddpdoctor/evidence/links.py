"""The nodes of a job and the links between them, as `ddpdoctor net` measured them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ddpdoctor.evidence.bounds import need_ranks

MasterOutcome: TypeAlias = Literal[
    "joined", "unresolved", "refused", "filtered", "unreachable", "foreign", "held", "silent"
]
LinkOutcome: TypeAlias = Literal[
    "ok", "refused", "filtered", "unreachable", "reset", "foreign", "small-stalls", "large-stalls"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterProbe:
    """How far one node came on its way to the rendezvous at MASTER_ADDR and MASTER_PORT."""

    addr: str
    """MASTER_ADDR: a name or an IP address."""
    port: int
    """MASTER_PORT, on which the store should listen."""
    outcome: MasterOutcome
    """`refused`: the host answers and nothing listens.

    `filtered`: no answer. `unreachable`: no route. `foreign`: what listens is no rendezvous store. `held`: this node
    should listen there and another process does. `silent`: it accepts connections and does not answer.
    """
    detail: str = ""
    """The error of the operating system, where there was one."""
    answer: str | None = None
    """What a foreign listener sent."""
    seconds: float = 0.0
    """How long the test took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node that joined."""

    node: int
    """Its number, 0 for the one that leads the test."""
    host: str
    """The name of its host."""
    address: str
    """The address on which collectives would reach it."""
    speed_mbit: int | None = None
    """The speed of its interface in megabits per second."""
    ranks: tuple[int, ...] = ()
    """The ranks on it, where a rank is not a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLink:
    """What node `source` found when it talked to node `target`."""

    source: int
    """The number of the node that connected."""
    target: int
    """The number of the node that listened."""
    outcome: LinkOutcome
    """`ok`, or how it failed."""
    detail: str = ""
    """The error of the operating system, where there was one."""
    latency_seconds: float | None = None
    """Half a round trip of 64 bytes; None where it was not measured."""
    bytes_per_second: float | None = None
    """The throughput of one TCP stream; None where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Every node and every link that was tried."""

    expected: int
    """How many nodes the job should have."""
    nodes: tuple[Node, ...]
    """The nodes that joined, in order of their numbers."""
    links: tuple[NodeLink, ...] = ()
    """The links that were tried, one entry per direction."""
    lost: tuple[int, ...] = ()
    """The nodes that joined and then stopped answering."""
    rounds: int = 0
    """How many rounds of pairs there were."""
    complete: bool = True
    """False where the deadline came before the last round."""
    seconds: float = 0.0
    """How long all rounds took."""

    def __post_init__(self) -> None:
        need_ranks(self.expected, "the number of expected nodes")

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the nodes that never joined."""
        return tuple(sorted(set(range(self.expected)) - {node.node for node in self.nodes}))

    def ranks(self, numbers: Collection[int]) -> tuple[int, ...]:
        """The ranks on these nodes; in `net` a node is a rank."""
        known = {node.node: node.ranks for node in self.nodes}
        return tuple(rank for number in numbers for rank in known.get(number) or (number,))

    def name(self, number: int) -> str:
        """The host of a node, or `node N` where it is not known or shared with another node."""
        hosts = {node.node: node.host for node in self.nodes}
        host = hosts.get(number)
        return host if host is not None and list(hosts.values()).count(host) == 1 else f"node {number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetGroup:
    """Nodes that summed a vector together over gloo."""

    nodes: tuple[int, ...]
    """The numbers of its members."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """The error of each node that had one."""
    hung: tuple[int, ...] = ()
    """The nodes that reported nothing."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def works(self) -> bool:
        """Whether every node of it got the right sum."""
        return not self.failed and not self.hung


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of two neighbours, then one of all nodes: what collectives do, after TCP alone was found to work."""

    nodes: tuple[int, ...]
    """The numbers of all nodes."""
    groups: tuple[NetGroup, ...] = ()
    """Those whose turn came: an earlier failure or the deadline ends the series."""

    @property
    def neighbours(self) -> tuple[NetGroup, ...]:
        """The groups of two; none in a job of two nodes."""
        return tuple(group for group in self.groups if group.nodes != self.nodes)

    @property
    def everybody(self) -> tuple[NetGroup, ...]:
        """The group of all nodes, where its turn came."""
        return tuple(group for group in self.groups if group.nodes == self.nodes)


KINDS = {
    MasterProbe: "connection test to MASTER_ADDR",
    Links: "link tests between nodes",
    Groups: "gloo group tests between nodes",
}
