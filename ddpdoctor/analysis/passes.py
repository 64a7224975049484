"""Which ranks have gone on to their next pass over the data, and which draw one batch more of the same."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, StepMark


def gone_on(
    calls: PerRank[CollectiveCalls] | None, ahead: Sequence[int], behind: Sequence[int], seq: int
) -> bool | None:
    """Whether the ranks `ahead` had begun a new pass over their data before call `seq`, and those `behind` had not.

    False where they had drawn a further batch of the same pass; None where neither is so, or the data are no DataLoader's.
    """
    marks = {entry.rank: mark for entry in calls or () if (mark := _last(entry.value, seq)) is not None}
    if not all(rank in marks for rank in (*ahead, *behind)):
        return None
    pairs = [(marks[one], marks[other]) for one in ahead for other in behind]
    if any(one.iteration <= other.iteration for one, other in pairs):
        return None
    anew = {(one.in_pass or 0) <= (other.in_pass or 0) for one, other in pairs}
    return anew.pop() if len(anew) == 1 else None


def _last(calls: CollectiveCalls, seq: int) -> StepMark | None:
    """The last iteration that began before call `seq`, where the place in its pass is known."""
    before = [mark for mark in calls.steps if mark.seq < seq]
    return before[-1] if before and before[-1].in_pass is not None else None
