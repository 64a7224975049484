"""Dumps that were made before a peer enqueued what it has completed: the job went on after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import STEP, Did, flights, record, waits

WAITED = 100.0


def dump(*made: Did, ranks: int, later: float = 0.0) -> FlightRecord:
    """A dump that was made after a wait; from the second call on, all was `later` by so many seconds."""
    found = record(made, world=ranks, waited=WAITED)
    moved = round(later * 1e9)
    created = (found.created_ns[0], *(moment + moved for moment in found.created_ns[1:]))
    assert found.taken_at is not None
    return replace(found, created_ns=created, taken_at=found.taken_at + later)


def job(*last: Did, later: float, ranks: int = 4, lost: int = 0, queued: int = 3) -> Evidence:
    """Ranks that wait in their second call, with more behind it, and one that came to it `later` and made these from then on."""
    late = dump(STEP, *last, later=later, ranks=ranks)
    columns = ("call", "seq", "stack", "state", "created_ns", "completed_ns")
    kept = {column: getattr(late, column)[lost:] for column in columns}
    return flights(*[dump(STEP, *[waits(STEP)] * queued, ranks=ranks)] * (ranks - 1), replace(late, **kept, lost=lost))


def named(evidence: Evidence) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.code, finding.ranks) for finding in diagnose(evidence).findings]


@pytest.mark.parametrize(("ranks", "lost"), [(4, 0), (2, 0), (2, 2)])
def test_a_rank_that_came_late_and_went_on_after_the_dumps_of_its_peers_accuses_nobody(ranks: int, lost: int) -> None:
    """Its peers wrote their dumps as their calls timed out; it saved a checkpoint until then."""
    assert named(job(STEP, STEP, STEP, later=400.0, ranks=ranks, lost=lost)) == []
    assert named(job(STEP, STEP, STEP, later=0.0, ranks=ranks, lost=lost)) != []


@pytest.mark.parametrize("ranks", [3, 16])
def test_what_peers_completed_with_ranks_that_had_not_enqueued_it_shows_their_dumps_to_be_older(ranks: int) -> None:
    """The dumps were made as a wait of minutes ended. Times of files and of peers say that they are of one moment."""
    evidence = job(STEP, STEP, waits(STEP), later=0.0, ranks=ranks, queued=1)
    assert named(evidence) == []
    assert diagnose(evidence).undecided


def test_a_rank_that_came_late_and_waits_itself_tells_of_no_motion() -> None:
    assert named(job(waits(STEP), later=90.0)) == [("DDP314", ())]
