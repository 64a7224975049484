"""The nodes of a job and the links between them, as `ddpdoctor net` measured them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MasterOutcome: TypeAlias = Literal[
    "joined", "unresolved", "refused", "filtered", "unreachable", "foreign", "held", "silent"
]
LinkOutcome: TypeAlias = Literal[
    "ok", "refused", "filtered", "unreachable", "reset", "foreign", "small-stalls", "large-stalls"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterProbe:
    """How far one node came on its way to the rendezvous at MASTER_ADDR and MASTER_PORT.

    `refused`: the host answers and nothing listens. `filtered`: no answer. `unreachable`: the network said no.
    `foreign`: something else than a rendezvous store answers, `answer` is what it said. `held`: this node should listen
    there and another process does. `silent`: it connects and the store does not answer.
    """

    addr: str
    port: int
    outcome: MasterOutcome
    detail: str = ""
    answer: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node that joined: its number, host name, and the address on which collectives would reach it.

    `ranks` are the ranks on it, where a rank is not a node.
    """

    node: int
    host: str
    address: str
    speed_mbit: int | None = None
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What node `source` found when it talked to node `target`. Latency is half a round trip of 64 bytes.

    `bytes_per_second` is one TCP stream's, None where it was not measured.
    """

    source: int
    target: int
    outcome: LinkOutcome
    detail: str = ""
    latency_seconds: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Every node and every link that was tried; `lost` nodes joined and then fell silent. `rounds` is how many there were.

    `expected` is how many nodes the job should have. `complete` is False where the deadline came before the last round.
    """

    expected: int
    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    lost: tuple[int, ...] = ()
    rounds: int = 0
    complete: bool = True
    seconds: float = 0.0

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
class Group:
    """Nodes that summed a vector together over gloo, and what went wrong by node; `hung` ones never said anything."""

    nodes: tuple[int, ...]
    failed: Mapping[int, str] = field(default_factory=dict)
    hung: tuple[int, ...] = ()
    seconds: float = 0.0

    @property
    def works(self) -> bool:
        """Whether every node of it got the right sum."""
        return not self.failed and not self.hung


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of two neighbours, then one of all `nodes`: what a job's collectives do, after TCP alone was found to work.

    A group whose turn did not come, since an earlier one failed or the deadline passed, is not in it.
    """

    nodes: tuple[int, ...]
    groups: tuple[Group, ...] = ()

    @property
    def neighbours(self) -> tuple[Group, ...]:
        """The groups of two; none in a job of two nodes."""
        return tuple(group for group in self.groups if group.nodes != self.nodes)

    @property
    def everybody(self) -> tuple[Group, ...]:
        """The group of all nodes, where its turn came."""
        return tuple(group for group in self.groups if group.nodes == self.nodes)


KINDS = (MasterProbe, Links, Groups)
