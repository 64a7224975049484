"""Dumps of active entries alone: a rank that has completed all its calls in a group holds none, and its table counts them."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup
from tests.flight_records import Did, flights, record, waits

WEIGHTS = Did("broadcast", group="weights", members=(0, 2, 3), line=40)
SAMPLES = Did("broadcast", group="samples", members=(0, 1, 2), line=50)
SENT = ProcessGroup(
    backend="nccl", name="weights", description="", ranks=(0, 2, 3), number=1, last_enqueued=1, last_completed=1
)


def holding(did: Did, *others: ProcessGroup) -> FlightRecord:
    one = record([waits(did)], world=4, waited=600.0, lost=9)
    groups = (replace(group, number=2, last_enqueued=1, last_completed=0) for group in one.groups)
    return replace(one, groups=(*groups, *others))


def job() -> Evidence:
    """Rank 0 has sent the weights, and waits for samples from rank 2, which waits for the weights; rank 3 is gone."""
    return flights(holding(SAMPLES, SENT), holding(SAMPLES), holding(WEIGHTS), None)


def test_a_root_that_is_through_with_its_broadcast_is_not_absent_from_it() -> None:
    (finding,) = diagnose(job()).findings
    assert (finding.code, finding.ranks) == ("DDP408", (3,))
