"""How long a pause may be: from the job's own rhythm, or as the user says."""

from __future__ import annotations

import pytest

from ddpdoctor.collect.stall import FIRST_STEP_SECONDS, LEAST_SECONDS, TIMES_LONGEST_PAUSE, WHILE_MOVING, Rhythm


def stepping(*times: float, given: float | None = None) -> Rhythm:
    """A job that made a step at each of these times."""
    rhythm = Rhythm(given=given)
    for number, now in enumerate(times):
        assert rhythm.observe(number, now, stepped=True)
    return rhythm


def test_quiet_counts_from_the_last_sign_of_life() -> None:
    rhythm = stepping(0, 1, 2)
    assert not rhythm.observe(2, 9, stepped=True)
    assert rhythm.quiet(9) == 7


def test_a_job_nobody_has_seen_yet_is_not_quiet() -> None:
    assert Rhythm().quiet(1000) == 0


@pytest.mark.parametrize(
    ("rhythm", "moving", "seconds"),
    [
        (stepping(0, 1, 2), False, LEAST_SECONDS),
        (stepping(0, 1, 2), True, LEAST_SECONDS * WHILE_MOVING),
        (stepping(0, 1, 61, 62), False, 60 * TIMES_LONGEST_PAUSE),
        (Rhythm(), False, FIRST_STEP_SECONDS),
        (stepping(0, 1, given=5), False, 5),
        (stepping(0, 1, given=5), True, 5),
        (Rhythm(given=5), False, 5),
        (Rhythm(given=5), True, FIRST_STEP_SECONDS),
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
def test_patience(rhythm: Rhythm, moving: bool, seconds: float) -> None:
    assert rhythm.patience(moving=moving) == seconds
