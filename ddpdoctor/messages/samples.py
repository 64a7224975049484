"""The line at which samples of a slow rank's stack found it, for rules about slow jobs."""

from __future__ import annotations

from ddpdoctor.evidence.step_times import Looks
from ddpdoctor.model import Where

OFTEN = 0.3  # of the samples: a line that holds a rank up is seen about as often as the share of the time that it takes


def seen_most_often(rank: int, looks: Looks | None) -> Where | None:
    """The line of the user's code that was seen most often, with how often; None where none was seen often."""
    if looks is None or not looks.places or looks.times[0] < OFTEN * looks.of:
        return None
    return Where.at(looks.places[0], rank=rank, note=f"here in {looks.times[0]} of {looks.of} samples")
