"""Hangs in which the dump of a rank was lost: it may be at fault, or have nothing to do with it."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from tests.flight_records import STEP, Did, flights, record, waits

WORLD = 6
LEFT = Did("all_gather", group="left", members=(0, 1, 2))
RIGHT = Did("all_gather", group="right", members=(3, 4, 5))


def test_ranks_that_wait_for_each_other_are_the_cause_also_where_the_dump_of_another_rank_was_lost() -> None:
    one = [STEP, waits(LEFT), waits(STEP)]
    swapped = [STEP, waits(STEP), waits(LEFT)]
    other = record([STEP, RIGHT, waits(STEP)], world=WORLD)
    (finding,) = diagnose(flights(one, one, swapped, other, other, None)).findings
    assert (finding.code, finding.ranks) == ("DDP312", (2,))


def test_without_that_the_rank_without_a_dump_stays_the_suspect() -> None:
    one = record([STEP, LEFT, waits(STEP)], world=WORLD)
    other = record([STEP, waits(RIGHT), waits(STEP)], world=WORLD)
    (finding,) = diagnose(flights(*[one] * 3, *[other] * 2, None)).findings
    assert (finding.code, finding.ranks) == ("DDP408", (5,))


def test_ranks_that_left_no_dump_are_suspects_together_also_where_others_wait_for_some_alone() -> None:
    sends = record([STEP, waits(Did("send", group="pair", members=(3, 4), peers=(0, 1)))], world=WORLD)
    gathers = record([STEP, waits(Did("all_gather", group="other", members=(2, 3)))], world=WORLD)
    through = record([STEP], world=WORLD)
    (finding,) = diagnose(flights(through, through, gathers, sends, None, None)).findings
    assert (finding.code, finding.ranks) == ("DDP408", (4, 5))
