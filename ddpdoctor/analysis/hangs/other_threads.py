"""Where the other threads of a rank stand that waits for one of them: one may hold the lock, or should hand something over."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from pathlib import PurePath

from ddpdoctor.analysis.hangs.callers import called_in
from ddpdoctor.analysis.hangs.rank_activity import RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import users_frames
from ddpdoctor.evidence.stacks import Stacks

MOST = 3  # of a rank


def sentences(culprits: Sequence[RankActivity], stacks: PerRank[Stacks] | None) -> list[str]:
    """`another thread of rank 1 (Thread-1) is at train.py:40 in beat, called in run (train.py:52)`: those in the user's code."""
    looked = by_rank(stacks)
    waiting = [
        culprit for culprit in culprits if culprit.kind in {Activity.LOCK, Activity.HANDOVER} and culprit.rank in looked
    ]
    return [text for one in waiting for text in _of(one, looked[one.rank])[:MOST]]


def _of(waiting: RankActivity, stacks: Stacks) -> list[str]:
    lines = [(thread.name, users_frames(thread.frames)) for thread in stacks.threads]
    return [
        f"another thread of rank {waiting.rank} ({name}) is at {PurePath(place.file).name}:{place.line} in {place.function}"
        f"{called_in([*callers, place])}"
        for name, (*callers, place) in filter(itemgetter(1), lines)
        if place != waiting.place
    ]
