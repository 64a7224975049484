"""Dump files that were copied, and have the time of the copy: their entries tell when the dumps were made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

RANKS = 8
COPIED_AFTER = [400.0, 3 * 365 * 86400.0]  # within twice the timeout of a call, and long after


def dump(*made: Did, noted: bool, waited: float) -> FlightRecord:
    """A rank's dump; with `noted` it saw a call end as it was made, 20 ms after its last call."""
    found = record(made, world=RANKS, waited=waited)
    return replace(found, noted_at=found.created_ns[-1] / 1e9 + 0.02) if noted else found


def codes(evidence: Evidence) -> list[str]:
    return [finding.code for finding in diagnose(evidence).findings]


@pytest.mark.parametrize("waited", COPIED_AFTER)
def test_a_job_that_moved_as_its_dumps_were_made_is_no_hang(waited: float) -> None:
    """Every third rank saw a call end as its dump was made."""
    dumps = (dump(STEP, waits(STEP), noted=rank % 3 == 0, waited=waited) for rank in range(RANKS))
    assert codes(flights(*dumps)) == []


@pytest.mark.parametrize("waited", COPIED_AFTER)
def test_a_job_that_stood_as_its_dumps_were_made_is_one(waited: float) -> None:
    dumps = (dump(STEP, waits(STEP), noted=False, waited=waited) for _ in range(RANKS))
    assert codes(flights(*dumps)) == ["DDP314"]


def test_a_dump_that_notes_how_long_its_rank_had_waited_is_believed() -> None:
    """The watchdogs of all ranks were stuck: their dumps note the ends of earlier calls."""
    made = [dump(STEP, waits(STEP), noted=False, waited=COPIED_AFTER[1]) for _ in range(RANKS)]
    assert codes(flights(*(replace(one, noted_at=one.created_ns[-1] / 1e9 + 180) for one in made))) == ["DDP314"]


def test_one_rank_whose_watchdog_was_stuck_does_not_speak_for_the_job() -> None:
    dumps = (dump(STEP, waits(STEP), noted=rank == 3, waited=COPIED_AFTER[1]) for rank in range(RANKS))
    assert codes(flights(*dumps)) == ["DDP314"]
