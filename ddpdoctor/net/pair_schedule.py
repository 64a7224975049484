"""Which pairs of nodes talk in which round, so that no node is in two pairs at once."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

FULL_MATRIX_NODES = 16  # 15 rounds; above, two passes, what they point at, and the links that NCCL opens
CONFIRMATIONS = 3  # a node is bad when it fails with this many partners that are known to be good, and passes with none
SUSPECT_ROUNDS = 4  # of suspects with each other, where they are too many for a full matrix

Pair: TypeAlias = "tuple[int, int]"


def circle(nodes: Sequence[int]) -> Iterator[list[Pair]]:
    """Rounds in which every pair meets once: N-1 rounds for an even number of nodes, N for an odd one (circle method)."""
    ring: list[int | None] = [*nodes] if len(nodes) % 2 == 0 else [*nodes, None]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        met = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [_pair(a, b) for a, b in met if a is not None and b is not None]
        ring.insert(1, ring.pop())


def neighbours(nodes: Sequence[int]) -> list[list[Pair]]:
    """Rounds in which each node meets the one after it and the one before it, the last being before the first.

    Two rounds for an even number of nodes; an odd one needs a third for the last pair. None for two nodes: they are all.
    """
    if len(nodes) < 3:
        return []
    ring = list(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    even = len(ring) % 2 == 0
    rounds = [ring[::2], ring[1::2]] if even else [ring[:-1:2], ring[1:-1:2], ring[-1:]]
    return [[_pair(*pair) for pair in together] for together in rounds]


def nccl_links(nodes: Sequence[int]) -> set[Pair]:
    """The pairs between which NCCL opens connections: its ring, and its two binary trees, over the nodes in order of rank.

    In the first tree a node's parent differs from it in the lowest bit that is set; the second is the same, shifted by one node
    where their number is odd and mirrored where it is even, so that leaves become inner nodes. Nobody has more than eight.
    """
    count = len(nodes)
    ring = {(place, (place + 1) % count) for place in range(count)}
    tree = {(place, _parent(place, count)) for place in range(1, count)}
    other = (
        {((a + 1) % count, (b + 1) % count) for a, b in tree}
        if count % 2
        else {(count - 1 - a, count - 1 - b) for a, b in tree}
    )
    return {_pair(nodes[a], nodes[b]) for a, b in ring | tree | other if a != b}


def disjoint(pairs: Collection[Pair]) -> Iterator[list[Pair]]:
    """Rounds of all these pairs in which no node is in two pairs."""
    waiting = set(pairs)
    while waiting:
        busy: set[int] = set()
        together = []
        for pair in sorted(waiting):
            if not busy & set(pair):
                busy.update(pair)
                together.append(pair)
        waiting -= set(together)
        yield together


class Planner:
    """The rounds for a job, each decided by the results of those before.

    Up to 16 nodes: the full matrix, then a second look at every pair that failed. Above: two passes of random pairing, then every
    suspect again with partners that passed, until each is confirmed or cleared, then the suspects with each other (those that a
    switch cuts off talk among themselves), then every pair between which NCCL opens connections, then those that failed once
    more.
    """

    def __init__(self, nodes: Collection[int], *, seed: int = 0) -> None:
        self._nodes = sorted(nodes)
        self._random = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        self._passed: dict[int, set[int]] = {node: set() for node in self._nodes}
        self._failed: dict[int, set[int]] = {node: set() for node in self._nodes}
        self._rounds = self._plan()
        self.rounds = 0

    def next_round(self) -> list[Pair]:
        """The pairs of the next round; none when the schedule is complete. Report their results before the next call."""
        for pairs in self._rounds:
            if pairs:
                self.rounds += 1
                return pairs
        return []

    def report(self, pair: Pair, *, good: bool) -> None:
        """Whether a pair talked as it should, in both directions, as far as is known by now: the last word counts."""
        now, before = (self._passed, self._failed) if good else (self._failed, self._passed)
        for me, other in (pair, pair[::-1]):
            now[me].add(other)
            before[me].discard(other)

    def _plan(self) -> Iterator[list[Pair]]:
        if len(self._nodes) <= FULL_MATRIX_NODES:
            yield from circle(self._nodes)
        else:
            yield from self._two_passes()
        yield from self._again()

    def _two_passes(self) -> Iterator[list[Pair]]:
        order = self._nodes[:]
        self._random.shuffle(order)
        for together in (
            zip(order[::2], order[1::2], strict=False),
            zip(order[1::2], order[2::2] + order[:1], strict=False),
        ):
            yield [_pair(*pair) for pair in together]
        for _ in range(2 * CONFIRMATIONS):
            pairs = self._suspects_with_good_partners()
            if not pairs:
                break
            yield pairs
        yield from self._suspects_with_each_other()
        yield from disjoint([pair for pair in nccl_links(self._nodes) if self._is_news(pair)])

    def _is_news(self, pair: Pair) -> bool:
        """Whether two nodes that both talk to somebody have not met yet."""
        one, other = pair
        met = self._passed[one] | self._failed[one]
        return bool(self._passed[one]) and bool(self._passed[other]) and other not in met

    def _suspects_with_good_partners(self) -> list[Pair]:
        """Each undecided suspect with a node that passed, other than those it has met; nobody twice."""
        undecided = [node for node in self._nodes if self._undecided(node)]
        free = [node for node in self._nodes if self._passed[node] and node not in undecided]
        self._random.shuffle(free)
        pairs = []
        for node in undecided:
            partner = next((other for other in free if other not in self._failed[node] | self._passed[node]), None)
            if partner is not None:
                free.remove(partner)
                pairs.append(_pair(node, partner))
        return pairs

    def _suspects_with_each_other(self) -> Iterator[list[Pair]]:
        suspects = [node for node in self._nodes if not self._passed[node]]
        if len(suspects) <= FULL_MATRIX_NODES:
            yield from circle(suspects)
            return
        for _ in range(SUSPECT_ROUNDS):
            self._random.shuffle(suspects)
            yield [_pair(*pair) for pair in zip(suspects[::2], suspects[1::2], strict=False)]

    def _undecided(self, node: int) -> bool:
        if self._passed[node]:
            return False
        return len(self._failed[node]) < CONFIRMATIONS + 1

    def _again(self) -> Iterator[list[Pair]]:
        """The failed pairs once more, in rounds without a node twice: a link is not accused for one bad moment.

        Not where most pairs failed: that is no bad moment.
        """
        waiting = {(node, other) for node in self._nodes for other in self._failed[node] if node < other}
        if len(waiting) > sum(map(len, self._passed.values())) // 2:
            return
        yield from disjoint(waiting)


def _parent(place: int, count: int) -> int:
    lowest = place & -place
    above = (place ^ lowest) | (lowest << 1)
    return above if above < count else place ^ lowest


def _pair(one: int, other: int) -> Pair:
    return min(one, other), max(one, other)
