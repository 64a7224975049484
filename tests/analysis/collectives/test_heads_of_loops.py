"""A rank that leaves a loop earlier than the others: by its `break`, or by a head that depends on the rank."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.source import CodePlace, Jump, Loop, RankValue
from tests.flight_records import STEP, TRAIN, Did, flights, waits

LEAVES = Loop(line=55, head="for i in range(8 - rank)", jumps=(Jump(line=60, word="break", test="done()"),))


@pytest.mark.parametrize(("in_head", "line"), [(True, 55), (False, 60)])
def test_the_head_that_depends_on_the_rank_is_shown_and_not_the_break(in_head: bool, line: int) -> None:
    value = RankValue(line=55, text="8 - rank", compares=False, in_head=in_head)
    code = (
        CodePlace(file=TRAIN, line=61, function="train_step", loops=(LEAVES,), rank_values=(value,)),
        CodePlace(file=TRAIN, line=95, function="train_step"),
        CodePlace(file=TRAIN, line=100, function="main"),
    )
    behind = [STEP, waits(Did("barrier", line=95))]
    first, *_ = diagnose(flights([STEP, waits(STEP)], behind, [STEP, waits(STEP)], backend="gloo", code=code)).findings
    assert (first.code, first.ranks) == ("DDP306", (1,))
    assert [where.line for where in first.where if where.line in (55, 60)] == [line]
