"""What two ranks of a group called from one number on: the same with calls left out or made besides, or in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ddpdoctor.analysis.collectives.recorders.matching import common_shape, dtypes, operation
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Timeline

LOOKED_AHEAD = 9  # calls that a rank may have left out, or made besides, or exchanged, and still be recognised
COMPARED_AHEAD = 64


def reordered(group: GroupTimeline, timeline: Timeline, seq: int, ranks: tuple[int, int]) -> int:
    """How many calls from number `seq` on two ranks made both, in different orders; 0 where they made other calls.

    The order of the second rank must have been made before, and that of the first must be new: in a loop, a rank that left a call
    out makes the calls that follow in the usual order. Where no earlier calls are known, both must go on alike.
    """
    mine, theirs = (operations_from(group, timeline, rank, seq) for rank in ranks)
    before = operations_until(group, timeline, ranks[1], seq - 1)
    for count in range(2, LOOKED_AHEAD):
        if count > min(len(mine), len(theirs)):
            return 0
        first, other = mine[:count], theirs[:count]
        if first != other and Counter(first) == Counter(other):
            runs = [before[place : place + count] for place in range(len(before))]
            follows = agree(mine[count:], theirs[count:])
            if not before:
                return count if follows else 0
            besides = len(mine) - len(theirs)
            if besides > 0 and mine[besides:] == theirs:  # calls that the other never made, and then all of the other's
                return 0
            after = min(len(mine), len(theirs)) == count or follows
            return count if other in runs and first not in runs and after else 0
    return 0


def skipped(theirs: Sequence[object], mine: Sequence[object]) -> bool:
    """Whether one side is at the call that came after the other side's call when the program was here before.

    `theirs` ends in the call of the other side, with what led to it before.
    """
    here = theirs[-2:]
    before = next((place for place in range(len(theirs) - 2, 0, -1) if theirs[place - 1 : place + 1] == here), None)
    return before is not None and theirs[before + 1 : before + 2] == mine != theirs[-1:]


def operations_from(group: GroupTimeline, timeline: Timeline, rank: int, seq: int) -> list[object]:
    """The calls of this rank from number `seq` on with their dtypes, and what of the shapes is the same on every rank."""
    sequence = group.group_sequences.sequence(rank)
    if sequence is None:
        return []
    numbers = sequence.calls[seq - sequence.first :][:COMPARED_AHEAD]
    calls = [timeline.call_index.calls[number] for number in numbers]
    return [(operation(one), dtypes(one), common_shape(one)) for one in calls]


def operations_until(group: GroupTimeline, timeline: Timeline, rank: int, seq: int) -> list[object]:
    """The same of the calls up to number `seq`, the last ones."""
    sequence = group.group_sequences.sequence(rank)
    first = max(seq + 1 - COMPARED_AHEAD, sequence.first) if sequence is not None else seq
    return operations_from(group, timeline, rank, first)[: seq + 1 - first]


def agree(mine: Sequence[object], theirs: Sequence[object]) -> bool:
    """Whether both go on alike, as far as both are known."""
    length = min(len(mine), len(theirs))
    return length > 0 and [*mine[:length]] == [*theirs[:length]]
