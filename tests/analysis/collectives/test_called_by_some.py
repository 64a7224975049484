"""What DDP305 advises: a test of the rank is to go, a test of a value is to be decided by all ranks together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from tests.checks.ddp305_collective_called_by_some import CODE, EXTRA, LAST, ONLY_RANK_0, SEEN
from tests.flight_records import STEP, Did, flights, waits
from tests.hangs import C10D, hang, rank, stack

IN_BARRIER = stack((C10D, 5000, "barrier"), user=(88, "train_step"))


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("self.preempted", "let all ranks decide together: all_reduce what the `if` at train.py:85 tests"),
        ("loss.item() > threshold", "let all ranks decide together: all_reduce what the `if` at train.py:85 tests"),
        ("rank == 0", "call it on every rank"),
        ("except ValueError", "call it on every rank"),
        ("with open(path)", "call it on every rank"),
    ],
)
def test_the_remedy_follows_what_the_condition_asks(test: str, told: str) -> None:
    guarded = replace(CODE[1], conditions=(replace(ONLY_RANK_0, test=test),))
    job = flights([STEP, LAST], [STEP, EXTRA], [STEP, LAST], code=(CODE[0], guarded))
    finding = diagnose(job).findings[0]
    assert (finding.code, finding.ranks) == ("DDP305", (1,))
    assert finding.remedy.startswith(told)


@pytest.mark.parametrize(
    "job",
    [
        flights([STEP, LAST], [STEP, waits(Did("barrier", line=88))], [STEP, LAST], code=CODE),
        hang(rank(), rank(IN_BARRIER), rank(), facts=(SEEN,)),
    ],
    ids=["by recorders", "by stacks"],
)
def test_a_barrier_is_to_come_out_of_the_test_of_the_rank(job: Evidence) -> None:
    finding = diagnose(job).findings[0]
    assert (finding.code, finding.ranks) == ("DDP305", (1,))
    assert finding.remedy.startswith("call the barrier on every rank: take it out of the `if` at train.py:85")
