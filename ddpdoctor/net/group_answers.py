"""What nodes answer after the rounds: how their groups of gloo and their sums with NCCL went, and whom they hung up on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ddpdoctor.evidence.links import Groups, NetGroup
from ddpdoctor.evidence.nccl import NcclTries, NcclTry
from ddpdoctor.net.pair_schedule import neighbours
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.transport.peer_message import Name, Number, PeerError, Text, need_seconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """A line of `probes/net_groups.py`: that it is ready, or what came of one group."""

    ready: bool = False
    """Whether this only says that the node has imported torch and reached the store."""
    nodes: tuple[Number, ...] = ()
    """The members of the group."""
    detail: Text = ""
    """The error, where there was one."""
    seconds: float = 0.0
    """How long it took."""

    def __post_init__(self) -> None:
        need_seconds(self.seconds, "the time of a group")


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclAnswer:
    """What a node says of NCCL between its own GPUs."""

    host: Name
    """The name of the node's host."""
    skipped: Text
    """Why it tried nothing; empty where it tried."""
    tries: tuple[NcclTry, ...]
    """One per transport."""


@dataclass(frozen=True, slots=True)
class GroupAnswers:
    """Reads the answers of nodes."""

    messages: Messages
    """Where nodes leave their answers."""
    wrong: dict[int, str]
    """By node, why its answer cannot be used."""

    def of(self, nodes: Iterable[int], key: str, kind: type[T], *, until: float) -> dict[int, T]:
        """The answer under `key` of each node that gave one of type `kind` by `until`."""
        found: dict[int, T] = {}
        for node in nodes:
            try:
                answer: T | None = self.messages.hear(f"{key}/{node}", kind, until=until, while_alive=node)
            except PeerError as error:  # noqa: PERF203 - one lies, the others are heard
                self.wrong.setdefault(node, str(error))
            else:
                if answer is not None:
                    found[node] = answer
        return found


def groups_of(members: Sequence[int], said: Mapping[int, tuple[GroupAnswer, ...]]) -> Groups:
    """What all nodes said of their groups, put together. A group is judged once its nodes were ready and one spoke of it."""
    judged = []
    for nodes in (*(pair for together in neighbours(members) for pair in together), tuple(members)):
        spoken = {node: each for node in nodes for each in said.get(node, ()) if each.nodes == nodes}
        if spoken and all(said.get(node) for node in nodes):
            judged.append(
                NetGroup(
                    nodes=nodes,
                    failed={node: each.detail for node, each in spoken.items() if each.detail},
                    hung=tuple(node for node in nodes if node not in spoken),
                    seconds=max(each.seconds for each in spoken.values()),
                )
            )
    return Groups(nodes=tuple(members), groups=tuple(judged))


def tries_of(said: Mapping[int, NcclAnswer]) -> NcclTries:
    """What all nodes said of NCCL between their own GPUs, each of itself alone."""
    return NcclTries(
        tries=tuple(each for node, one in sorted(said.items()) for each in one.tries if each.node == node),
        skipped={one.host: one.skipped for _, one in sorted(said.items()) if one.skipped},
    )
