"""Errors of ranks that read what another call of their peers had sent, and those that are a rank's own."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.collectives.mispaired_objects import MispairedObjects
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from tests.flight_records import TORCH, TRAIN, Did, record
from tests.jobs_that_end_early import validates_early
from tests.rank_ends import LOST_PEER, ended

READS = replace(TORCH, function="_tensor_to_object")


def told_of(evidence: Evidence) -> list[int | None]:
    found = derived(evidence, MispairedObjects)
    return [failure.rank for failure in found.failures] if found is not None else []


def gathers_objects(line: int, other: int, *, raised_at: int, size: int = 40) -> Evidence:
    """Rank 1 gathered an object at `line` where rank 0 gathered one at `other`, and could not read it at `raised_at`."""
    error = RankError(
        type="AttributeError",
        message="no such thing",
        stack=(READS, *(Frame(file=TRAIN, line=at, function=name) for at, name in ((raised_at, "log"), (100, "main")))),
    )
    ours, theirs = (
        record([Did("_all_gather_base", line=at, function="log", sizes=((bytes_,),))], world=2)
        for at, bytes_ in ((line, size), (other, 90))
    )
    return ended((theirs, LOST_PEER), (ours, RankExit(exit_code=1, error=error)))


def test_a_rank_that_could_not_decode_what_it_received_from_another_call_made_no_error_of_its_own() -> None:
    assert told_of(validates_early(2, raised="UnicodeDecodeError")) == [1]
    assert told_of(gathers_objects(20, 30, raised_at=20)) == [1]


def test_other_errors_and_errors_elsewhere_are_its_own() -> None:
    assert told_of(validates_early(2, raised="KeyError")) == []
    assert told_of(validates_early(2, raised="UnicodeDecodeError", line=40)) == []
    assert told_of(gathers_objects(20, 30, raised_at=44)) == []


def test_of_one_line_the_error_is_its_own() -> None:
    assert told_of(gathers_objects(20, 20, raised_at=20)) == []
    assert told_of(gathers_objects(20, 30, raised_at=20, size=90)) == []


def test_the_clash_shows_the_error_that_it_led_to() -> None:
    (clash,) = diagnose(gathers_objects(20, 30, raised_at=20)).findings
    assert clash.code == "DDP302"
    assert "raised AttributeError" in clash.where[-1].note
