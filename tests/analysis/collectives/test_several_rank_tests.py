"""A call that ranks make at several lines, each under a test of the rank of its own, and that one rank leaves out."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.source import CodePlace, Condition
from tests.flight_records import TRAIN, Did, flights, waits

WAITS_FIRST, GOES_FIRST = (
    Condition(line=10, test="rank not in {-1, 0, 1}", branch=0),
    Condition(line=13, test="rank == 0", branch=0),
)
CODE = (
    CodePlace(file=TRAIN, line=11, function="zero_first", conditions=(WAITS_FIRST,)),
    CodePlace(file=TRAIN, line=14, function="zero_first", conditions=(GOES_FIRST,)),
    CodePlace(file=TRAIN, line=95, function="main"),
    CodePlace(file=TRAIN, line=90, function="main"),
    CodePlace(file=TRAIN, line=100, function="main"),
)


def test_each_test_of_the_rank_is_shown_beside_its_call() -> None:
    first_in = waits(Did("barrier", line=14, function="zero_first", main=90))
    later_in = waits(Did("barrier", line=11, function="zero_first", main=90))
    passed_by = waits(Did("all_gather", line=95, function="main"))

    (found, *_) = diagnose(flights([first_in], [passed_by], [later_in], backend="gloo", code=CODE)).findings

    assert (found.code, found.ranks) == ("DDP305", (1,))
    notes = {where.rank: where.note for where in found.where}
    assert "inside `if rank == 0` (train.py:13)" in notes[0]
    assert "inside `if rank not in {-1, 0, 1}` (train.py:10)" in notes[2]
    assert "inside" not in notes[1]
