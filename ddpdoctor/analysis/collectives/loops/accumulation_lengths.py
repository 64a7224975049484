"""Over how many forwards each rank accumulates, where every one of its steps has one reduction, with the last of them.

Ranks that accumulate over other numbers then still reduce once for each step, and the same step everywhere: larger batches
on a GPU with more memory, say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward

LEAST_STEPS = 3  # of a rank, with all of their forwards


def accumulation_lengths(calls: PerRank[CollectiveCalls]) -> Mapping[int, int]:
    """The number of forwards for each step, by rank; nothing where a rank makes other numbers, or reduces at other forwards.

    Nor where a data loader counts batches: there a rank with fewer steps ends in the same pass as its peers, and hangs.
    """
    if any(mark.in_pass is not None for entry in calls for mark in entry.value.steps):
        return {}
    found = {entry.rank: _length(entry.value.forwards) for entry in calls}
    return {rank: length for rank, length in found.items() if length} if all(found.values()) else {}


def _length(forwards: Sequence[Forward]) -> int | None:
    groups = [[*group] for _, group in groupby(forwards, key=lambda forward: forward.steps)]
    whole = groups[0 if forwards and forwards[0].number == 1 else 1 : -1]
    patterns = {tuple(forward.reduces for forward in group) for group in whole}
    numbers = [group[0].steps for group in whole]
    if len(whole) < LEAST_STEPS or len(patterns) > 1 or None in numbers:
        return None
    (pattern,) = patterns
    (*before, last) = pattern
    alike = last is True and all(one is False for one in before)
    in_turn = all(after == step + 1 for step, after in pairwise(numbers) if step is not None)
    return len(pattern) if alike and in_turn else None
