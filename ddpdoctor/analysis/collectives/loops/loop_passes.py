"""Which ranks began their next pass over the data, drew one batch more, or passed over a batch, by their loops' counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ddpdoctor.analysis.majority import Vote, vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.source import Loop

# of all steps of the count, the least share that must be alike: a count of turns is steady, a number drawn from data is not
STEADY = 0.5
_RANGE = r"range\((?:\d+, ?){0,2}\d+\)"
_CONSTANT_RANGE = re.compile(  # alone, or in a function that neither shortens it nor draws from it
    rf"\bin (?:{_RANGE}|(?:tqdm|track|enumerate|reversed)\({_RANGE}(?:, \w+=[\w.'\"]+)*\)):?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBatch:
    """The first forward at which the ranks' loops stood at different turns."""

    forward: int
    """The number of this forward, the same on all ranks."""
    turns: Mapping[int, int]
    """By rank, how often its loop had turned by its own count."""
    ahead: tuple[int, ...]
    """The ranks whose loop had turned more than once since the forward before."""

    @property
    def sides(self) -> Vote:
        """The ranks by the turn."""
        return vote(self.turns)


def passed_over(calls: PerRank[CollectiveCalls]) -> SkippedBatch | None:
    """Where the turns of the ranks first diverged by whole iterations, or None where they never did or cannot be compared.

    A count that begins anew parts the ranks too, backwards: of an epoch with fewer batches this says nothing.
    """
    turns = {
        entry.rank: {forward.number: forward.turn for forward in entry.value.forwards if forward.turn is not None}
        for entry in calls
    }
    common = sorted(set.intersection(*map(set, turns.values()))) if turns else []
    steps = Counter(
        issued[later] - issued[number]
        for issued in turns.values()
        for number, later in pairwise(common)
        if later == number + 1
    )
    if not steps:
        return None
    ((stride, times),) = steps.most_common(1)
    if stride < 1 or times < STEADY * steps.total():
        return None
    for number, later in pairwise(common):
        moved = {rank: issued[later] - issued[number] for rank, issued in turns.items()}
        if len({*moved.values()}) > 1:
            if stride not in moved.values() or not all(step > 0 and step % stride == 0 for step in moved.values()):
                return None
            ahead = tuple(rank for rank, step in sorted(moved.items()) if step > stride)
            return SkippedBatch(
                forward=later, turns={rank: issued[later] for rank, issued in turns.items()}, ahead=ahead
            )
    return None


def started_next_epoch(
    calls: PerRank[CollectiveCalls] | None, ahead: Sequence[int], behind: Sequence[int], seq: int
) -> bool | None:
    """Whether the ranks `ahead` had begun a new pass over their data before call `seq`, and those `behind` had not.

    False where they had drawn a further batch of the same pass; None where neither is so, or where neither a DataLoader nor the
    variable of the loop counts the batches.
    """
    last = {entry.rank: place for entry in calls or () if (place := _last(entry.value, seq)) is not None}
    if not all(rank in last for rank in (*ahead, *behind)):
        return None
    pairs = [(last[one], last[other]) for one in ahead for other in behind]
    if any(one.iteration <= other.iteration for one, other in pairs):
        return None
    anew = {one.in_pass <= other.in_pass for one, other in pairs}
    return anew.pop() if len(anew) == 1 else None


def runs_to_its_end(loop: Loop | None) -> bool:
    """Whether the source shows that every pass through the loop has the same number of turns: constants, and no way out of it."""
    if loop is None or any(jump.word in ("break", "return") for jump in loop.jumps):
        return False
    return loop.fixed or bool(_CONSTANT_RANGE.search(loop.head))


class _Place(NamedTuple):
    """Which iteration of a rank it is, and where it falls in its pass over the data."""

    iteration: int
    in_pass: int


def _last(calls: CollectiveCalls, seq: int) -> _Place | None:
    """The last iteration that began before call `seq`, where its place in the pass is known.

    Without a DataLoader an iteration is a forward, and its place is the count of the loop around it.
    """
    before = [mark for mark in calls.steps if mark.seq < seq]
    if not before:
        return None
    iteration, in_pass = before[-1].iteration, before[-1].in_pass
    if in_pass is None:
        in_pass = next((forward.turn for forward in calls.forwards if forward.number == iteration), None)
    return _Place(iteration, in_pass) if in_pass is not None else None
