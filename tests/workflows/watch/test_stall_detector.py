"""How long a pause may be: from the job's own rhythm, or as the user says."""

from __future__ import annotations

import pytest

from ddpdoctor.workflows.watch.stall_detector import (
    FIRST_STEP_SECONDS,
    LEAST_SECONDS,
    TIMES_LONGEST_PAUSE,
    WHILE_MOVING,
    StallDetector,
)


def stepping(*times: float, given: float | None = None) -> StallDetector:
    """A job that made a step at each of these times."""
    stall_detector = StallDetector(given=given)
    for number, now in enumerate(times):
        assert stall_detector.observe(number, now, stepped=True)
    return stall_detector


def test_quiet_counts_from_the_last_sign_of_life() -> None:
    stall_detector = stepping(0, 1, 2)
    assert not stall_detector.observe(2, 9, stepped=True)
    assert stall_detector.quiet(9) == 7


def test_a_job_nobody_has_seen_yet_is_not_quiet() -> None:
    assert StallDetector().quiet(1000) == 0


@pytest.mark.parametrize(
    ("stall_detector", "moving", "seconds"),
    [
        (stepping(0, 1, 2), False, LEAST_SECONDS),
        (stepping(0, 1, 2), True, LEAST_SECONDS * WHILE_MOVING),
        (stepping(0, 1, 61, 62), False, 60 * TIMES_LONGEST_PAUSE),
        (StallDetector(), False, FIRST_STEP_SECONDS),
        (stepping(0, 1, given=5), False, 5),
        (stepping(0, 1, given=5), True, 5),
        (StallDetector(given=5), False, 5),
        (StallDetector(given=5), True, 5),
    ],
    ids=[
        "steady",
        "works",
        "paused before",
        "no step yet",
        "given",
        "given, works",
        "given, first",
        "given, first, works",
    ],
)
def test_patience(stall_detector: StallDetector, moving: bool, seconds: float) -> None:
    assert stall_detector.patience(moving=moving) == seconds
