"""A turn of a loop that one rank passes over, where all ranks wait at the one call in it, with tensors of different turns."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.source import CodePlace, Jump, Loop
from tests.flight_records import TRAIN, Did, flights, waits

MAIN, REGULARIZES = Did("all_reduce", sizes=((1872,),)), Did("all_reduce", sizes=((1600,),))


def phases(test: str) -> Evidence:
    """`for phase in phases: if TEST: continue`: rank 1 passes over a turn with 1,600 gradients, and comes to one with 1,872."""
    loop = Loop(
        line=55, head="for phase in phases", jumps=(Jump(line=56, word="continue", test=test, by_rank="rank" in test),)
    )
    places = (CodePlace(file=TRAIN, line=61, function="train_step", loops=(loop,)),)
    before = [MAIN, REGULARIZES, MAIN]
    others = [*before, waits(REGULARIZES)]
    return flights(others, [*before, waits(MAIN)], others, backend="gloo", code=places)


def test_the_continue_under_a_test_of_the_rank_is_shown() -> None:
    (first,) = diagnose(phases("rank == 1 and batch == 24")).findings

    assert (first.code, first.ranks) == ("DDP305", (1,))
    assert first.where[0].line == 56
    assert first.where[0].note.startswith("`continue` inside `if rank == 1 and batch == 24`")


@pytest.mark.parametrize("test", ["batch % interval", ""])
def test_another_continue_need_not_be_the_way(test: str) -> None:
    assert 56 not in {where.line for finding in diagnose(phases(test)).findings for where in finding.where}
