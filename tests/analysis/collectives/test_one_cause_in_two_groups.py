"""A rank that comes apart from its peers in several groups by one wrong call is one headline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding, Severity
from tests.flight_records import Did, flights, record, waits

HALVES = (0, 1, 2, 3), (4, 5, 6, 7)
LOSS = Did("all_reduce", line=70, sizes=((1,),))


def gradients(rank: int, size: int) -> Did:
    """A bucket in the half of this rank; no rank ends it."""
    half = HALVES[rank // 4]
    return waits(Did("all_reduce", line=61, sizes=((size,),), group=f"half {half[0]}", members=half))


def headlines(*made: list[Did]) -> list[Finding]:
    records = [record(each, world=len(made), waited=600.0) for each in made]
    found = diagnose(flights(*records)).findings
    return [one for one in found if one.severity is Severity.FAIL and one.explained_by is None]


@pytest.mark.parametrize("culprit", [0, 5, 7])
def test_a_call_without_its_group_is_one_headline(culprit: int) -> None:
    """The call of its half is missing, and met the loss in the group of all: three groups of calls, one cause."""
    made = [[gradients(rank, 20), gradients(rank, 30), gradients(rank, 40), waits(LOSS)] for rank in range(8)]
    made[culprit][0] = replace(made[culprit][0], group="0", members=None)
    (finding,) = headlines(*made)
    assert finding.ranks == (culprit,)


@pytest.mark.parametrize("culprit", [0, 3])
def test_calls_in_another_order_without_any_history_are_no_call_left_out(culprit: int) -> None:
    """Dumps of active entries alone hold nothing from before."""
    made = [[gradients(rank, size) for size in (20, 30, 40, 50)] for rank in range(4)]
    made[culprit][:2] = reversed(made[culprit][:2])
    (finding,) = headlines(*made)
    assert (finding.code, finding.ranks) == ("DDP302", (culprit,))
    assert "made the same 2 calls in different orders" in finding.message


@pytest.mark.parametrize("culprit", [0, 3])
def test_a_call_besides_those_of_the_others_is_no_other_order(culprit: int) -> None:
    """It has the shape of the loss, which the rank has queued as well, behind all that its peers have."""
    bucket, step = Did("all_reduce", line=61, sizes=((20,),)), [Did("all_reduce", line=61, sizes=((20,),)), LOSS]
    made = [[*step * 3, waits(bucket), waits(LOSS)] for _ in range(4)]
    made[culprit].insert(6, waits(replace(LOSS, line=90, function="debug")))
    (finding,) = headlines(*made)
    assert (finding.code, finding.ranks) == ("DDP305", (culprit,))
    assert finding.where[0].line == 90


@pytest.mark.parametrize("ranks", [4, 8])
def test_what_ranks_call_differently_counts_before_the_last_has_come(ranks: int) -> None:
    """Rank 0 makes one more step. Rank 1 waits for it in their evaluation, and comes to the call of the others after that."""
    evaluation = waits(Did("all_gather", line=80, function="evaluate", group="eval", members=(0, 1)))
    stop = waits(Did("broadcast", line=81, function="early_stop"))
    bucket = Did("all_reduce", line=61)
    made = [[bucket] * 3 + [stop] for _ in range(ranks)]
    made[0][-1], made[1][-1] = waits(bucket), evaluation
    (finding,) = headlines(*made)
    assert (finding.code, finding.ranks) in (("DDP301", (0,)), ("DDP305", (0,)), ("DDP306", (0,)))


@pytest.mark.parametrize(("instead", "code"), [("", "DDP305"), ("broadcast", "DDP301")])
def test_ranks_that_did_the_same_with_one_call_in_like_groups_are_one_headline(instead: str, code: str) -> None:
    """Ranks 3 and 7 left out the gather of their halves, or made another call."""
    made = []
    for rank in range(8):
        half = HALVES[rank // 4]
        gather, reduce = (
            waits(Did(op, line=line, group=f"half {half[0]}", members=half))
            for op, line in (("all_gather", 50), ("all_reduce", 51))
        )
        other = [replace(gather, op=instead)] if instead else []
        made.append([*other, reduce] if rank in (3, 7) else [gather, reduce])
    records = [record(each, world=len(made), waited=600.0) for each in made]
    described = [
        replace(one, groups=tuple(replace(group, description="HALF") for group in one.groups)) for one in records
    ]
    found = [one for one in diagnose(flights(*described)).findings if one.explained_by is None]
    assert [(one.code, one.ranks) for one in found] == [(code, (3, 7))], found
