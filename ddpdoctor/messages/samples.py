"""The lines at which samples of a slow rank's stack found it, for rules about slow jobs."""

from __future__ import annotations

from ddpdoctor.evidence.step_times import Looks
from ddpdoctor.model import Where

MOST_LINES = 2
OFTEN = 0.3  # of the samples: a line that holds a rank up is seen about as often as the share of the time that it takes


def seen_often(rank: int, looks: Looks | None) -> tuple[Where, ...]:
    """The lines of the user's code that were seen often, with how often: a call and a line below it, or one line."""
    if looks is None:
        return ()
    seen = zip(looks.places[:MOST_LINES], looks.times, strict=False)
    return tuple(
        Where.at(place, rank=rank, note=f"here in {times} of {looks.of} samples")
        for place, times in seen
        if times >= OFTEN * looks.of
    )
