"""How far the network of a job was found to work, layer by layer. The first that fails is where to look."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ddpdoctor.evidence.links import Groups, LinkOutcome, Links, MasterOutcome, MasterProbe, NodeLink
from ddpdoctor.evidence.nccl import NcclTransport, NcclTries

ON_THE_WAY: tuple[tuple[str, frozenset[MasterOutcome]], ...] = (
    ("name of the master", frozenset({"unresolved"})),
    ("MASTER_PORT", frozenset({"refused", "filtered", "unreachable", "held"})),
    ("rendezvous store", frozenset({"foreign", "silent"})),
)
BETWEEN_NODES: tuple[tuple[str, frozenset[LinkOutcome]], ...] = (
    ("connections between nodes", frozenset({"refused", "filtered", "unreachable", "foreign", "reset"})),
    ("64 bytes there and back", frozenset({"small-stalls"})),
    ("64 KiB and a stream", frozenset({"large-stalls"})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of the network and how many tried it."""

    name: str
    """What was tried, such as `NCCL over NET`."""
    tried: int = 0
    """How many nodes, directions or groups tried it; those that failed at a layer below did not."""
    failed: int = 0
    """How many of these failed."""
    skipped: str = ""
    """Why nobody tried it; empty where somebody did."""

    @property
    def verdict(self) -> Literal["ok", "failed", "skipped"]:
        """What is to be said of it."""
        return "failed" if self.failed else "ok" if self.tried else "skipped"


def layers(
    probes: Collection[MasterProbe], links: Links | None, groups: Groups | None, nccl: NcclTries | None
) -> tuple[Layer, ...]:
    """Every layer in order. What nobody tried was skipped for the first that failed below it."""
    found = [*_on_the_way(probes), *_between_nodes(links), *_groups(groups), *nccl_layers(nccl)]
    first = next((layer.name for layer in found if layer.verdict == "failed"), None)
    reason = f"{first} failed" if first else "no time or no node was left"
    return tuple(layer if layer.tried or layer.skipped else replace(layer, skipped=reason) for layer in found)


def nccl_layers(nccl: NcclTries | None) -> Iterable[Layer]:
    """NCCL between the GPUs of each host, one layer a transport. A host whose GPUs have no such way has not tried it."""
    tries, skipped = (nccl.tries, set(nccl.skipped.values())) if nccl is not None else ((), set())
    for transport in get_args(NcclTransport):
        its = [each for each in tries if each.transport == transport]
        tried = [each for each in its if each.outcome != "not-taken"]
        reasons = sorted({each.detail for each in its if each.outcome == "not-taken"} or skipped)
        yield Layer(
            name=f"NCCL over {transport}",
            tried=len(tried),
            failed=sum(each.outcome != "ok" for each in tried),
            skipped="" if tried else "; ".join(reasons),
        )


def _on_the_way(probes: Collection[MasterProbe]) -> Iterable[Layer]:
    left = list(probes)
    for name, bad in ON_THE_WAY:
        failed = [probe for probe in left if probe.outcome in bad]
        yield Layer(name=name, tried=len(left), failed=len(failed))
        left = [probe for probe in left if probe not in failed]


def _between_nodes(links: Links | None) -> Iterable[Layer]:
    present, absent = (0, 0) if links is None else (len(links.nodes), len(links.missing))
    yield Layer(name="all nodes there", tried=present + absent, failed=absent)
    left: list[NodeLink] = list(links.links) if links is not None else []
    for name, bad in BETWEEN_NODES:
        failed = [link for link in left if link.outcome in bad]
        yield Layer(name=name, tried=len(left), failed=len(failed))
        left = [link for link in left if link not in failed]


def _groups(groups: Groups | None) -> Iterable[Layer]:
    neighbours, everybody = (groups.neighbours, groups.everybody) if groups is not None else ((), ())
    of_two = "all nodes are two" if everybody and not neighbours else ""
    for name, tried, skipped in (("gloo, two neighbours", neighbours, of_two), ("gloo, all nodes", everybody, "")):
        yield Layer(name=name, tried=len(tried), failed=sum(not group.works for group in tried), skipped=skipped)
