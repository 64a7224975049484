"""Several operations that do not end: the work for each rank does not grow with their number; the remedy fits all of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

from ddpdoctor.checks.ddp314_all_ranks_in_one_collective import OF_A_ROOT, OF_THE_COMMON, RULE
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from tests.checks import ddp314_all_ranks_in_one_collective as of_ddp314
from tests.flight_records import STEP, Did, flights, record, waits

MOST_GROWTH = 8  # of the work for four times the ranks; comparing all with all is sixteen times the work


def ring(ranks: int) -> Evidence:
    """A job in which each rank sends to the next one and receives from the one before, as one batch that does not end."""
    records = []
    for rank in range(ranks):
        halves = [
            waits(Did("send", peers=(rank, (rank + 1) % ranks))),
            waits(Did("recv", peers=((rank - 1) % ranks, rank))),
        ]
        records.append(replace(record([STEP, *halves], world=ranks), seq=(1, 1, 1)))
    return flights(*records)


def calls_of_functions(evidence: Evidence) -> int:
    """How many Python functions a diagnosis of it calls."""
    called = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        diagnose(evidence)
    finally:
        sys.setprofile(before)
    return called


def test_the_work_for_a_ring_grows_with_its_ranks() -> None:
    """A ring of four times the ranks is found stuck as one, with about four times the function calls."""
    small, large = ring(32), ring(128)

    (finding,) = diagnose(large).findings

    assert finding.code == "DDP314"
    assert finding.measured["members"] == [*range(128)]
    assert calls_of_functions(large) < MOST_GROWTH * calls_of_functions(small)


def test_a_device_that_stopped_in_one_of_two_groups_is_a_detail() -> None:
    """The other group stands by itself, so the remedy is for both, and a line tells of the device."""
    one, other = of_ddp314.BEGUN_ONE, of_ddp314.BEGUN_OTHER

    (finding,) = diagnose(flights(one, one, of_ddp314.QUEUED_ONE, other, other, other)).findings

    assert finding.remedy == RULE.remedy
    assert (
        "the device of rank 2 has not begun all_reduce #1 of group 1, those of its other ranks have" in finding.details
    )


def test_the_root_of_the_second_operation_is_asked_for() -> None:
    """Of two groups that stand, the younger one is in a broadcast: its root may differ between ranks."""
    reduce, broadcast = (
        Did(op, group=name, members=members)
        for op, name, members in (("all_reduce", "1", (0, 1)), ("broadcast", "2", (2, 3)))
    )

    (finding,) = diagnose(flights(*[[STEP, waits(reduce)]] * 2, *[[STEP, STEP, waits(broadcast)]] * 2)).findings

    assert finding.code == "DDP314"
    assert "all_reduce #1 of group 1" in finding.message.partition(" and all ")[0]
    assert finding.remedy == OF_A_ROOT


def test_a_rank_of_all_transfers_is_told_nothing_of_work_before_them() -> None:
    """Only a device that has not begun a call shows that earlier work does not end."""
    in_a_ring = of_ddp314.in_a_ring
    done = record([STEP, Did("all_reduce", group="3")])

    (finding,) = diagnose(
        flights(in_a_ring(0, (0, 1)), in_a_ring(1, (0, 1), (1, 2)), in_a_ring(2, (1, 2)), done)
    ).findings

    assert finding.ranks == (1,)
    assert finding.remedy == OF_THE_COMMON


def test_receivers_of_a_broadcast_that_its_root_has_completed() -> None:
    sent, receives = Did("broadcast", line=40), waits(Did("broadcast", line=40))
    each = [record([STEP, sent, waits(STEP)], world=4), *(record([STEP, receives, waits(STEP)], world=4),) * 3]
    (finding,) = diagnose(flights(*each)).findings
    assert (finding.code, finding.ranks) == ("DDP314", ())
    assert "ranks 1-3 are in broadcast #2" in finding.message
    assert "rank 0 is through with it" in finding.message
