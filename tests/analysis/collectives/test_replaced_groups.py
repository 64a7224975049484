"""Jobs that destroy their process groups and make new ones, which get the same names and count their calls anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

WORLD = 4
FIRST = [Did("broadcast"), STEP, STEP, Did("barrier")]  # what every rank called before `destroy_process_group`
GATHER = Did("all_gather", line=70)


def anew(then: Sequence[Did], *, numbers: tuple[int, int] = (0, 1), first: Sequence[Did] = FIRST) -> FlightRecord:
    """A rank that called `first` in the default group, destroyed it, and called `then` in the one that followed."""
    one = record([*first, *(replace(did, group="later") for did in then)], world=WORLD)
    named = {"0": numbers[0], "later": numbers[1]}
    groups = (
        replace(group, name="0", description="default_pg", number=named[group.name], ranks=tuple(range(WORLD)))
        for group in one.groups
    )
    return replace(one, groups=tuple(groups))


def told(*each: FlightRecord) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.code, finding.ranks) for finding in diagnose(flights(*each)).findings]


def test_a_rank_that_stays_away_from_the_new_group_is_named() -> None:
    (finding,) = diagnose(flights(*[anew([GATHER, waits(GATHER)])] * 3, anew([GATHER]))).findings
    assert (finding.code, finding.ranks) == ("DDP307", (3,))
    assert finding.message == (
        "rank 3 did not come to all_gather #2, in which ranks 0-2 wait for 6.2 s so far; the last that it called was "
        "all_gather #1"
    )


def test_numbers_of_calls_that_begin_anew_are_no_mismatch() -> None:
    assert told(*[anew([GATHER, STEP])] * WORLD) == []


def test_a_mismatch_in_the_new_group_is_found() -> None:
    other = anew([GATHER, waits(Did("broadcast", line=80))])
    assert told(other, *[anew([GATHER, waits(GATHER)])] * 3) == [("DDP301", (0,))]


@pytest.mark.parametrize("numbers", [(0, 1), (0, 7)])
def test_a_ring_that_holds_only_the_new_group_meets_one_that_holds_both(numbers: tuple[int, int]) -> None:
    """The groups of ranks need not have the same numbers: a rank that is in more groups counts further."""
    short = anew([GATHER, waits(GATHER)], numbers=numbers, first=[])
    short = replace(short, lost=4)
    assert told(short, *[anew([GATHER, waits(GATHER)])] * 2, anew([GATHER])) == [("DDP307", (3,))]


def test_a_rank_that_never_left_the_old_group_is_the_one_that_others_wait_for() -> None:
    """Its calls are not compared with those that others made in the new group under the same numbers."""
    assert told(*[anew([waits(GATHER)])] * 3, anew([])) == [("DDP307", (3,))]
