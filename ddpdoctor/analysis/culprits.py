"""From a matrix of good and bad links to what is broken: a node, a switch between two groups, or a link.

A whole bad row and column is a node; a block is what joins its two sides; what remains are links.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Direction: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprits:
    """What accounts for bad links.

    `nodes` fail with most of their partners in both directions, `deaf` ones only when others talk to them, `mute` ones only
    when they talk. `blocks` are pairs of groups none of which reaches the other. `links` are the rest: source, target.
    """

    nodes: tuple[int, ...] = ()
    deaf: tuple[int, ...] = ()
    mute: tuple[int, ...] = ()
    blocks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    links: tuple[Direction, ...] = ()


def attribute(tried: Mapping[Direction, bool]) -> Culprits:
    """What accounts for the directions that are not good. `tried` maps (source, target) to whether it was good.

    A node is accused where it failed with more than half of at least two partners; the worst first, and what it
    accounts for is then taken out.
    """
    bad = {direction for direction, good in tried.items() if not good}
    found: dict[str, list[int]] = {"nodes": [], "deaf": [], "mute": []}
    while bad:
        kind, node = _worst(tried, bad, {*found["nodes"]})
        if node is None:
            break
        found[kind].append(node)
        bad = {
            (source, target)
            for source, target in bad
            if not (
                (kind == "nodes" and node in (source, target))
                or (kind == "deaf" and target == node)
                or (kind == "mute" and source == node)
            )
        }
    blocks = _blocks(bad, tried)
    for one, other in blocks:
        bad -= {(a, b) for a in one for b in other} | {(b, a) for a in one for b in other}
    return Culprits(
        nodes=tuple(sorted(found["nodes"])),
        deaf=tuple(sorted(found["deaf"])),
        mute=tuple(sorted(found["mute"])),
        blocks=blocks,
        links=tuple(sorted(bad)),
    )


def _worst(
    tried: Mapping[Direction, bool], bad: Collection[Direction], accused: Collection[int]
) -> tuple[str, int | None]:
    """The node that accounts for most bad directions, with the kind of its fault; None where no node does.

    Partners that are accused already, and nodes in a block, testify against nobody.
    """
    best: tuple[int, str, int | None] = (0, "", None)
    for node in sorted({end for direction in bad for end in direction} - {*accused}):
        partners = {a if b == node else b for a, b in tried if node in (a, b)} - {*accused}
        inward = {other for other in partners if (other, node) in tried}
        outward = {other for other in partners if (node, other) in tried}
        bad_in = {other for other in inward if (other, node) in bad}
        bad_out = {other for other in outward if (node, other) in bad}
        both = bad_in & bad_out
        for kind, failing, of in (
            ("nodes", both, inward & outward),
            ("deaf", bad_in - both, inward),
            ("mute", bad_out - both, outward),
        ):
            if len(of) > 1 and 2 * len(failing) > len(of) and not _splits(node, failing, tried, bad):
                weight = len(bad_in) + len(bad_out) if kind == "nodes" else len(failing)
                best = max(best, (weight, kind, node), key=lambda each: each[0])
    return best[1], best[2]


def _splits(node: int, failing: set[int], tried: Mapping[Direction, bool], bad: Collection[Direction]) -> bool:
    """Whether others beside `node` fail with just the same partners: then what joins the two groups is broken."""
    like = [
        other
        for other in {end for direction in bad for end in direction} - failing - {node}
        if all((other, far) in bad and (far, other) in bad for far in failing)
        and tried.get((node, other), False)
        and tried.get((other, node), False)
    ]
    return bool(like) and len(failing) > 1


def _blocks(
    bad: Collection[Direction], tried: Mapping[Direction, bool]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Two groups of at least two nodes between which every direction is bad, while each group talks within itself."""
    far: dict[int, frozenset[int]] = {}
    for node in {end for direction in bad for end in direction}:
        others = {b for a, b in bad if a == node} & {a for a, b in bad if b == node}
        far[node] = frozenset(others)
    groups: dict[frozenset[int], set[int]] = {}
    for node, others in far.items():
        if len(others) > 1:
            groups.setdefault(others, set()).add(node)
    found = set()
    for beyond, members in groups.items():
        inside = all(tried.get((a, b), False) for a in members for b in members if a != b)
        if len(members) > 1 and inside and all(far.get(other, frozenset()) >= members for other in beyond):
            one, two = sorted((tuple(sorted(members)), tuple(sorted(beyond))))
            found.add((one, two))
    return tuple(sorted(found))
