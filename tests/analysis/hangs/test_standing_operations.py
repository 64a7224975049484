"""Sends and receives of a ring that do not end: the work for each rank does not grow with the ring."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
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
