"""Of two ranks that wait for each other, the one whose group is none of those that all others use at its line."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.collectives.programs.unlike_groups import rank_in_another_group
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.derivation import derived
from tests.flight_records import STEP, Did, flights, waits

ALL, PAIR = Did("barrier", line=99), Did("barrier", line=99, group="2", members=(1, 3))
ELSEWHERE = Did("barrier", line=98, group="2", members=(1, 3))


MINE, THEIRS = (Did("barrier", line=99, group=str(first + 4), members=(first, first + 1)) for first in (0, 2))


@pytest.mark.parametrize(
    ("last", "waits_for", "rank"),
    [
        ((MINE, ALL, STEP, STEP), (0, 1), 1),  # its usual group is that in which rank 0 waits
        ((ALL, MINE, STEP, STEP), (0, 1), 0),
        ((STEP, ALL, STEP, STEP), (1,), None),  # nobody waits for it there
        ((MINE, ALL, ALL, STEP), (0, 1, 2), None),  # rank 2 is in that group, too
    ],
)
def test_the_rank_that_leaves_its_usual_group(
    last: tuple[Did, ...], waits_for: tuple[int, ...], rank: int | None
) -> None:
    usual = (MINE, MINE, THEIRS, THEIRS)
    calls = [[STEP, usual[number], waits(call)] for number, call in enumerate(last)]
    timeline = derived(flights(*calls, backend="gloo"), Timeline)
    assert timeline is not None
    stand = {number: group.open[number] for group in timeline.groups for number in group.open if number in waits_for}
    assert rank_in_another_group(timeline, stand) == rank


@pytest.mark.parametrize(
    ("last", "before", "rank"),
    [
        ((ALL, PAIR, ALL, ALL), (), 1),
        ((ALL, ALL, ALL, PAIR), (), 3),
        ((ALL, ELSEWHERE, ALL, ALL), (), None),
        ((ALL, PAIR, ALL, ALL), (PAIR,), None),  # ranks 1 and 3 use several groups at this line
    ],
)
def test_the_rank_in_another_group(last: tuple[Did, ...], before: tuple[Did, ...], rank: int | None) -> None:
    calls = [[STEP, *(before if number in (1, 3) else ()), waits(call)] for number, call in enumerate(last)]
    timeline = derived(flights(*calls, backend="gloo"), Timeline)
    assert timeline is not None
    stand = {number: group.open[number] for group in timeline.groups for number in group.open if number in (1, 3)}
    assert rank_in_another_group(timeline, stand) == rank
