"""A rank that left no dump in a run that was started again, and whose dump of the run before is still there."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

HOUR = 3600


def earlier(one: FlightRecord, seconds: int) -> FlightRecord:
    assert one.taken_at is not None
    created = tuple(moment - seconds * 10**9 for moment in one.created_ns)
    return replace(one, created_ns=created, taken_at=one.taken_at - seconds)


def job(steps: int, seconds: int) -> Evidence:
    """Rank 3 died in the third step; the dump that it left has `steps` of them and is so much older."""
    others = [record([STEP, STEP, waits(STEP)], world=4, waited=600.0) for _ in range(3)]
    return flights(*others, earlier(record([STEP] * steps, world=4, waited=600.0), seconds))


def test_a_dump_that_completed_what_others_enqueued_after_it_is_of_an_earlier_run() -> None:
    (finding,) = diagnose(job(9, HOUR)).findings
    assert (finding.code, finding.ranks) == ("DDP408", (3,))
    assert "the dump of rank 3 is of an earlier run" in finding.message


def test_clocks_of_hosts_may_differ() -> None:
    timeline = derived(job(9, 30), Timeline)
    assert timeline is not None
    assert timeline.of_earlier_runs == ()


def test_a_dump_of_a_rank_that_this_run_does_not_have_is_of_an_earlier_one() -> None:
    """The job was started again with three ranks: their default group has no rank 3, and what died is rank 2."""
    others = [record([STEP, STEP, waits(STEP)], world=3, waited=600.0) for _ in range(2)]
    evidence = flights(*others, None, earlier(record([STEP], world=4, waited=600.0), HOUR))
    timeline = derived(evidence, Timeline)
    assert timeline is not None
    assert timeline.of_earlier_runs == (3,)
    (finding,) = diagnose(evidence).findings
    assert (finding.code, finding.ranks) == ("DDP408", (2,))


def test_ranks_of_an_earlier_run_are_not_missing_where_only_sends_and_receives_wait() -> None:
    """Dumps of active entries alone: no collective is left that shows who belongs to the job."""
    receive = [waits(Did("recv", peers=(2, rank))) for rank in range(2)]
    others = [record([one], world=3, waited=600.0, lost=9) for one in receive]
    evidence = flights(*others, None, earlier(record([receive[0]], world=4, waited=600.0, lost=9), HOUR))
    (finding,) = diagnose(evidence).findings
    assert (finding.code, finding.ranks) == ("DDP408", (2,))
