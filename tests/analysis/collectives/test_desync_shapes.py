"""Shapes that differ because two different lines met: the fix is to look at the lines, not to pad."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.flight_records import STEP, Did, flights, waits


@pytest.mark.parametrize(("line", "about_lines"), [(61, False), (88, True)])
def test_the_cure_says_which_of_both_it_is(line: int, about_lines: bool) -> None:
    here, there = waits(STEP), waits(Did("all_reduce", line=line, sizes=((2,),)))
    (finding,) = diagnose(flights([STEP, here], [STEP, there], [STEP, here], backend="gloo")).findings
    assert (finding.code, finding.ranks) == ("DDP302", (1,))
    assert ("different lines" in finding.remedy, "pad" in finding.remedy) == (about_lines, not about_lines)


def test_a_call_that_was_left_out_before_one_of_its_name_is_told_by_its_shape() -> None:
    large = Did("all_reduce", sizes=((20,),))
    others = [STEP, STEP, waits(large), waits(STEP)]
    (finding,) = diagnose(flights(others, others, [STEP, waits(large)], others)).findings
    assert (finding.code, finding.ranks) == ("DDP305", (2,))
    assert "all_reduce #2 with a tensor of shape [10]" in finding.message
    assert "all_reduce #2 with a tensor of shape [20]" in finding.message
