"""What a rank did at a call where the others made the one that usually follows, or where it alone did as always."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.collectives.programs.usual_course import Course, course, usual_instead

STEP, END = [1, 2, 3], [8, 9]  # the calls of a turn, and those behind the loop
EPOCH = [*STEP * 5, *END]


@pytest.mark.parametrize(
    ("before", "mine", "theirs", "expected"),
    [
        ([0, *EPOCH * 2, *STEP * 2], 8, 1, Course.LEFT_THE_LOOP),
        ([*EPOCH, *STEP * 2], 8, 1, None),
        ([*EPOCH, *STEP * 5], 1, 8, Course.TURNS_AGAIN),
        ([0, *STEP * 5], 1, 8, Course.TURNS_AGAIN),
        ([*EPOCH, *STEP, 1], 3, 2, Course.LEFT_OUT),
        ([*EPOCH, *STEP * 5, 8], 1, 9, Course.LEFT_OUT),
        ([0, *STEP * 5, 8], 1, 9, Course.LEFT_OUT),
        ([*EPOCH, *STEP, 1, 2, 3, 1], 1, 2, Course.BESIDES),
        ([*EPOCH, *STEP * 5], 8, 9, Course.BESIDES),
        ([0, *STEP * 5], 8, 1, None),
        ([0, *STEP * 5], 1, 1, None),
        ([], 1, 2, None),
        ([1], 1, 2, None),
    ],
)
def test_what_a_rank_did(before: list[int], mine: int, theirs: int, expected: Course | None) -> None:
    assert course(before, mine, theirs, by_lines=True) is expected


def test_a_new_call_without_a_line_tells_nothing() -> None:
    assert course([0, *STEP * 5, 8], 1, 9, by_lines=False) is None


def test_a_call_out_of_turn_is_told_only_where_turns_were_alike() -> None:
    a, b, once = 1, 2, 3
    assert usual_instead([a, b, a, b, b]) == a
    assert usual_instead([a, b, a, b, a]) == a
    assert usual_instead([a, b, a, a, b, b]) is None
    assert usual_instead([a, a, a, once]) is None
