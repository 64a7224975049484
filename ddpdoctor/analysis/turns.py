"""The forward that a rank made in a later turn of its loop than its peers did: it had passed over a batch before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls

# of all steps of the count, the least share that must be alike: a count of turns is steady, a number drawn from data is not
STEADY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """The first forward at which the ranks' loops stood at different turns, each by its own count.

    `ahead` are the ranks whose loop had turned more than once since the forward before.
    """

    forward: int
    turns: Mapping[int, int]
    ahead: tuple[int, ...]

    @property
    def sides(self) -> Vote:
        """The ranks by the turn."""
        return vote(self.turns)


def passed_over(calls: PerRank[CollectiveCalls]) -> PassedOver | None:
    """Where the turns of the ranks first parted by whole turns, or None where they never did or cannot be compared.

    A count that begins anew parts the ranks too, backwards: of an epoch with fewer batches this says nothing.
    """
    turns = {
        entry.rank: {forward.number: forward.turn for forward in entry.value.forwards if forward.turn is not None}
        for entry in calls
    }
    common = sorted(set.intersection(*map(set, turns.values()))) if turns else []
    steps = Counter(
        made[later] - made[number]
        for made in turns.values()
        for number, later in pairwise(common)
        if later == number + 1
    )
    if not steps:
        return None
    ((stride, times),) = steps.most_common(1)
    if stride < 1 or times < STEADY * steps.total():
        return None
    for number, later in pairwise(common):
        moved = {rank: made[later] - made[number] for rank, made in turns.items()}
        if len({*moved.values()}) > 1:
            if stride not in moved.values() or not all(step > 0 and step % stride == 0 for step in moved.values()):
                return None
            ahead = tuple(rank for rank, step in sorted(moved.items()) if step > stride)
            return PassedOver(forward=later, turns={rank: made[later] for rank, made in turns.items()}, ahead=ahead)
    return None
