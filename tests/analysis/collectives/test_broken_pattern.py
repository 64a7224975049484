"""Of two ranks without others of their part, the one that leaves out what had always followed before is at fault."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.flight_records import Did, flights, record, waits

FIRST, SECOND, LOSS = (
    Did("all_reduce", sizes=((size,),), line=line) for line, size in ((61, 9000), (62, 9001), (70, 1))
)
STEP = [FIRST, SECOND, LOSS]


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize(("steps", "named"), [(4, True), (1, False)], ids=["a pattern", "too few steps"])
def test_a_call_that_one_of_two_ranks_left_out(odd: int, steps: int, *, named: bool) -> None:
    made = [[*STEP * steps, FIRST, waits(SECOND), waits(LOSS)] for _ in range(2)]
    made[odd] = [*STEP * steps, FIRST, waits(LOSS)]
    (finding,) = diagnose(flights(*(record(each, world=2, waited=600.0) for each in made))).findings
    assert finding.ranks == ((odd,) if named else (0, 1))
