"""A rank that waits after an exception has ended one of its threads: the finding shows where that thread died."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, ThreadError, ThreadErrors
from tests.flight_records import STEP, Did, flights, waits
from tests.hangs import STDLIB, hang, rank, stack

STACK = (
    Frame(file=f"{STDLIB}/tarfile.py", line=1600, function="open"),
    Frame(file="/job/data.py", line=41, function="fill"),
)
ERROR = RankError(type="OSError", message="shard-00035.tar is truncated\nand more", stack=STACK)
DIED = ThreadErrors(each=(ThreadError(thread="prefetcher", error=ERROR),))
SAID = "a thread of rank 1 (prefetcher) had died of OSError: shard-00035.tar is truncated"


def shows_the_thread(evidence: Evidence, code: str) -> None:
    ranks = tuple(replace(facts, facts=(*facts.facts, DIED)) if facts.rank == 1 else facts for facts in evidence.ranks)
    first, plain = diagnose(replace(evidence, ranks=ranks)).findings[0], diagnose(evidence).findings[0]
    assert (first.code, first.message, first.ranks) == (code, plain.message, plain.ranks)
    assert SAID in first.details
    assert (first.where[0].rank, first.where[0].file, first.where[0].line) == (1, "/job/data.py", 41)
    assert first.remedy != plain.remedy
    assert SAID not in plain.details


def test_a_queue_that_a_dead_thread_should_fill() -> None:
    lock = stack((f"{STDLIB}/queue.py", 171, "get"), user=(70, "batches"))
    shows_the_thread(hang(rank(), rank(lock)), "DDP307")


def test_a_group_that_a_dead_thread_should_serve() -> None:
    beat = Did("all_gather", line=70, group="1")
    evidence = flights([STEP, waits(beat)], [STEP, waits(STEP)], [STEP, waits(beat)], backend="gloo")
    shows_the_thread(evidence, "DDP312")


def test_of_a_thread_of_a_rank_that_waits_for_others_nothing_is_said() -> None:
    sleeper = rank(stack(user=(88, "validate")), system_call="clock_nanosleep")
    (finding,) = diagnose(hang(sleeper, (*rank(), DIED))).findings
    assert (finding.code, finding.ranks, finding.details) == ("DDP307", (0,), ())
