"""From a matrix of good and bad links to what is broken: a node, a switch between two groups, or a link.

A whole bad row and column is a node; a block is what joins its two sides; what remains are links.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Direction: TypeAlias = "tuple[int, int]"
Kind: TypeAlias = Literal["nodes", "ingress", "egress"]
Weight: TypeAlias = "tuple[float, int, Kind]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaults:
    """What accounts for bad links."""

    nodes: tuple[int, ...] = ()
    """Nodes that fail with most of their partners in both directions."""
    ingress: tuple[int, ...] = ()
    """Nodes that fail only when others send to them."""
    egress: tuple[int, ...] = ()
    """Nodes that fail only when they send."""
    blocks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    """Pairs of groups of nodes none of which reaches the other."""
    links: tuple[Direction, ...] = ()
    """The bad links that nothing else accounts for, as source and target."""


def attribute(tried: Mapping[Direction, bool]) -> LinkFaults:
    """What accounts for the directions that are not good. `tried` maps (source, target) to whether it was good.

    Where every result fits two groups that each talk within themselves, it is what joins them. Else a node is accused where it
    failed with more than half of at least two partners; the worst first, and what it accounts for is then taken out.
    """
    if (block := _two_sides(tried)) is not None:
        return LinkFaults(blocks=(block,))
    testimony = _LinkMatrix(tried)
    found: dict[Kind, list[int]] = {"nodes": [], "ingress": [], "egress": []}
    while (worst := testimony.worst()) is not None:
        node, kind = worst
        found[kind].append(node)
        testimony.take_out(node, kind)
    bad = testimony.bad
    blocks = _blocks(bad, tried)
    for one, other in blocks:
        bad -= {(a, b) for a in one for b in other} | {(b, a) for a in one for b in other}
    return LinkFaults(
        nodes=tuple(sorted(found["nodes"])),
        ingress=tuple(sorted(found["ingress"])),
        egress=tuple(sorted(found["egress"])),
        blocks=blocks,
        links=tuple(sorted(bad)),
    )


class _LinkMatrix:
    """Who was tried with whom and how it went; what an accused node accounts for testifies against nobody else."""

    def __init__(self, tried: Mapping[Direction, bool]) -> None:
        self._tried = tried
        self._from: dict[int, set[int]] = {}
        self._to: dict[int, set[int]] = {}
        self._bad_from: dict[int, set[int]] = {}
        self._bad_to: dict[int, set[int]] = {}
        for (source, target), good in tried.items():
            self._to.setdefault(source, set()).add(target)
            self._from.setdefault(target, set()).add(source)
            if not good:
                self._bad_to.setdefault(source, set()).add(target)
                self._bad_from.setdefault(target, set()).add(source)
        self._weights = {node: self._judge(node) for node in sorted(self._bad_to.keys() | self._bad_from.keys())}

    @property
    def bad(self) -> set[Direction]:
        """The directions that nobody accounts for yet."""
        return {(source, target) for source, targets in self._bad_to.items() for target in targets}

    def worst(self) -> tuple[int, Kind] | None:
        """The node that accounts for most bad directions, with the kind of its fault; None where no node does."""
        node = max(self._weights, key=lambda each: self._weights[each][:2], default=None)
        if node is None or not self._weights[node][0]:
            return None
        return node, self._weights[node][2]

    def take_out(self, node: int, kind: Kind) -> None:
        """Remove what `node` accounts for, and judge those again whom it concerned."""
        concerned = self._from.get(node, set()) | self._to.get(node, set())
        if kind != "egress":
            self._bad_from.pop(node, None)
            for source in self._from.pop(node, ()):
                self._to[source].discard(node)
                self._bad_to.get(source, set()).discard(node)
        if kind != "ingress":
            self._bad_to.pop(node, None)
            for target in self._to.pop(node, ()):
                self._from[target].discard(node)
                self._bad_from.get(target, set()).discard(node)
        if kind == "nodes":
            del self._weights[node]
        else:
            concerned = concerned | {node}
        for other in concerned & self._weights.keys():
            self._weights[other] = self._judge(other)

    def _judge(self, node: int) -> Weight:
        """The share of its partners with which `node` fails, how many bad directions that explains, and how it fails.

        The share is 0 where it failed with half of its partners or fewer. It comes first: a bad node fails with everybody,
        an innocent one that met many bad ones has talked to somebody.
        """
        sources, targets = self._from.get(node, set()), self._to.get(node, set())
        bad_from, bad_to = self._bad_from.get(node, set()), self._bad_to.get(node, set())
        ingress = _mostly(bad_from, sources) and not self._has_company(node, bad_from)
        egress = _mostly(bad_to, targets) and not self._has_company(node, bad_to)
        if ingress and egress:
            explained = len(bad_from) + len(bad_to)
            return explained / (len(sources) + len(targets)), explained, "nodes"
        if ingress:
            return len(bad_from) / len(sources), len(bad_from), "ingress"
        if egress:
            return len(bad_to) / len(targets), len(bad_to), "egress"
        return 0.0, 0, "nodes"

    def _has_company(self, node: int, failing: set[int]) -> bool:
        """Whether another node fails with just the same partners and talks to `node`: what joins the groups is broken."""
        if len(failing) < 2:
            return False
        alike = set.intersection(
            *(self._bad_from.get(far, set()) & self._bad_to.get(far, set()) for far in failing)
        ) - {node}
        return any(self._tried.get((node, other), False) and self._tried.get((other, node), False) for other in alike)


def _mostly(bad: Collection[int], tried: Collection[int]) -> bool:
    """Whether more than half of at least two are bad."""
    return len(tried) > 1 and 2 * len(bad) > len(tried)


def _two_sides(tried: Mapping[Direction, bool]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The two groups that all results fit: nothing gets through between them, everything within each.

    None where a result contradicts that, where a group has one node only, or where most of a group talk to nobody.
    """
    alike: dict[int, list[tuple[int, bool]]] = {}
    for (a, b), good in tried.items():
        if tried.get((b, a)) != good:
            return None
        alike.setdefault(a, []).append((b, good))
    side: dict[int, bool] = {}
    waiting = list(alike)[:1]
    side.update(dict.fromkeys(waiting, True))
    while waiting:
        node = waiting.pop()
        for other, same in alike[node]:
            expected = side[node] == same
            if other not in side:
                side[other] = expected
                waiting.append(other)
            elif side[other] != expected:
                return None
    if len(side) < len(alike):
        return None
    groups = [tuple(sorted(node for node in side if side[node] is which)) for which in (True, False)]
    for group in groups:
        talking = [node for node in group if any(same for _, same in alike[node])]
        if len(group) < 2 or 2 * len(talking) <= len(group):
            return None
    one, two = sorted(groups)
    return one, two


def _blocks(
    bad: Collection[Direction], tried: Mapping[Direction, bool]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Two groups of at least two nodes between which every direction is bad, while each group talks within itself."""
    far: dict[int, frozenset[int]] = {}
    for node in {end for direction in bad for end in direction}:
        others = {b for a, b in bad if a == node} & {a for a, b in bad if b == node}
        far[node] = frozenset(others)
    groups: dict[frozenset[int], set[int]] = {}
    for node, unreached in far.items():
        if len(unreached) > 1:
            groups.setdefault(unreached, set()).add(node)
    found = set()
    for beyond, members in groups.items():
        inside = all(tried.get((a, b), False) for a in members for b in members if a != b)
        if len(members) > 1 and inside and all(far.get(other, frozenset()) >= members for other in beyond):
            one, two = sorted((tuple(sorted(members)), tuple(sorted(beyond))))
            found.add((one, two))
    return tuple(sorted(found))
